// Readers of files read changed files: a fixed sequence of changes, and changes by clang's libFuzzer if it is
// installed.
#include "milc_glue/host/gauge_file.h"
#include "tests/fuzz_support.h"
#include "tests/ranks_support.h"
#include "tests/run_support.h"
#include <filesystem>
#include <fstream>

using tests::fuzz::Reader;

TEST_CASE("readers of files refuse a changed file with a message, or read it as it is",
          "[lattice_file][eigen][sanitize]") {
    for (const Reader &reader : tests::fuzz::readers()) {
        std::mt19937 random(11);
        const int rounds = long_tests() ? 5000 : 200;
        int seed = 0;
        for (const std::string &file : reader.seeds()) {
            INFO(reader.name << ", seed " << seed++);
            CHECK_NOTHROW(reader.read(file));
            for (int round = 0; round < rounds; ++round) {
                const std::string other = tests::fuzz::changed(file, random);
                const std::string broken = tests::thrown_by([&] { reader.read(other); });
                if (!broken.empty()) // keep the file
                    std::ofstream("/tmp/milcgpu-fuzz-" + std::string(reader.name)) << other;
                INFO("change " << round);
                CHECK(broken == "");
            }
        }
    }
}

TEST_CASE("readers of files: libFuzzer finds nothing in a minute", "[lattice_file][eigen]") {
    LONG_TEST;
    if (!std::filesystem::exists(MILCGPU_FUZZ))
        SKIP_TEST("no clang++ with libFuzzer, or not a host build");
    const tests::Folder folder;
    const std::string found = folder.path.string() + "/found", corpus = folder.path.string() + "/corpus";
    std::filesystem::create_directory(corpus);
    tests::succeeded(tests::run("", "",
                                MILCGPU_FUZZ " -max_total_time=60 -max_len=40000 -timeout=10 -rss_limit_mb=1024 "
                                             "-seed=1 -verbosity=0 -artifact_prefix=" +
                                    found + " " + corpus));
}

TEST_CASE("readers of files: ranks read what one rank reads, also if the file ends meanwhile",
          "[lattice_file][ranks]") {
    using milcgpu::SiteRecords;
    const tests::Folder folder;
    const std::string path = folder.path.string() + "/file";
    const SiteRecords::Grain grains[] = {
        {96, 700, true}, {288, 288, true}, {4096, 300, true}, {1, 1, true}, SiteRecords::usual};
    std::mt19937 random(12);
    int reads = 0;
    for (const std::string &seed : tests::fuzz::readers()[0].seeds())
        for (int round = 0; round < (long_tests() ? 300 : 15); ++round) {
            const std::string file = round == 0 ? seed : tests::fuzz::changed(seed, random);
            std::ofstream(path, std::ios::binary | std::ios::trunc) << file;
            milcgpu::SiteFileHead head;
            try {
                head = milcgpu::head_of(path);
            } catch (const milcgpu::Error &) {
                continue;
            }
            const int ranks = 2 + round % 2;
            if (head.extents[3] < ranks || head.sites() > 600)
                continue;
            const bool ends = round % 3 == 1;
            if (ends)
                std::filesystem::resize_file(path, head.data + 100);
            const SiteRecords::Grain &grain = grains[round % std::size(grains)];
            const auto who = milcgpu::Readers(round % 3);
            const auto box = [&](int rank, int of) {
                milcgpu::Box part{head.extents, head.extents, {}, {}, 0};
                part.origin[3] = head.extents[3] * rank / of;
                part.extent[3] = head.extents[3] * (rank + 1) / of - part.origin[3];
                return part;
            };
            // Sites in lexicographic order, x fastest, which joined boxes keep.
            const auto read = [&](milcgpu::Ranks &on, const milcgpu::Box &part, std::vector<float> &links) {
                links.assign(72 * size_t(part.sites()), -5);
                std::vector<int> map; // even sites, then odd ones
                for (size_t parity = 0; parity < 2; ++parity)
                    for (size_t k = 0; k < size_t(part.sites()); ++k) {
                        size_t rest = k, odd = 0;
                        for (int mu = 0; mu < 4; ++mu)
                            odd += part.origin[mu] + rest % part.extent[mu], rest /= part.extent[mu];
                        if (odd % 2 == parity)
                            map.push_back(int(k));
                    }
                return milcgpu::read_sites(on, part, path, head, {links.data(), false, 288, map.data()}, who, grain);
            };
            std::vector<std::vector<float>> parts(ranks);
            std::vector<milcgpu::SumPair> sums(ranks);
            const auto endings = tests::on_ranks(ranks, [&](milcgpu::Ranks &on) {
                sums[on.rank()] = read(on, box(on.rank(), ranks), parts[on.rank()]);
            });
            INFO("round " << round << ", " << ranks << " ranks");
            if (ends) {
                CHECK(tests::all_ended(endings, milcgpu::Status::bad_argument, ""));
                continue;
            }
            REQUIRE(tests::all_well(endings));
            milcgpu::Ranks one;
            std::vector<float> whole, joined;
            const milcgpu::SumPair sum = read(one, box(0, 1), whole);
            for (int rank = 0; rank < ranks; ++rank) {
                joined.insert(joined.end(), parts[rank].begin(), parts[rank].end());
                CHECK(sums[rank] == sum);
            }
            CHECK((joined.size() == whole.size() &&
                   std::memcmp(joined.data(), whole.data(), whole.size() * sizeof(float)) == 0));
            ++reads;
        }
    CHECK(reads > 20);
}
