// Files that the example programs write are whole or absent. Tables may have commas in cells.
#include "examples/lib/arguments.h"
#include "examples/lib/csv.h"
#include "gpu_kernels/machine/backend/host_segment.h"
#include "gpu_kernels/machine/backend/quoted.h"
#include "milc_glue/host/site_records.h"
#include "tests/catch.h"
#include "tests/run_support.h"
#include "tests/source_text.h"
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <limits>
#include <sys/wait.h>
#include <unistd.h>

using examples::Cells;
using examples::Csv;
using examples::OutputFile;

namespace {

int files_in(const std::filesystem::path &folder) {
    return int(std::distance(std::filesystem::directory_iterator(folder), {}));
}
template <class Exception, class Work> std::string refusal(const Work &work) {
    try {
        work();
    } catch (const Exception &error) {
        return error.what();
    }
    return "";
}

} // namespace

TEST_CASE("an output file has its name only when it is whole", "[programs][sanitize]") {
    const tests::Folder folder;
    const std::string path = folder.path.string() + "/file", link = folder.path.string() + "/link";
    std::ofstream(path) << "old";
    {
        OutputFile file;
        file.open("--out", path);
        file.write("new");
        CHECK(tests::text_of(path) == "old");
        CHECK(tests::text_of(path + "." + std::to_string(getpid()) + ".part") == "new");
    }
    CHECK(tests::text_of(path) == "old");
    CHECK(files_in(folder.path) == 1);
    std::filesystem::create_symlink(path, link);
    const auto permissions = std::filesystem::perms::owner_all | std::filesystem::perms::others_read;
    std::filesystem::permissions(path, permissions);
    const auto written_by_link = [&] {
        OutputFile file;
        file.open("--out", link);
        file.write("new");
        file.finish();
        CHECK(tests::text_of(path) == "new");
        CHECK(std::filesystem::is_symlink(link));
    };
    written_by_link();
    CHECK(std::filesystem::status(path).permissions() == permissions);
    CHECK(files_in(folder.path) == 2);
    std::filesystem::remove(path); // a link to a file that does not exist yet
    std::filesystem::remove(link);
    std::filesystem::create_symlink("file", link);
    written_by_link();

    const auto refused = [](const std::string &name, double bytes) {
        return refusal<examples::ArgumentError>([&] { examples::check_writable("--out", name, bytes); });
    };
    CHECK(refused(path, 0) == "");
    CHECK(refused("", 0) == "");
    CHECK(refused("/dev/null", 0) == "--out: /dev/null cannot be written: it is no plain file");
    CHECK(refused(folder.path, 0) == "--out: " + folder.path.string() + " cannot be written: it is a folder");
    CHECK(refused(path + "/inside", 0).find("Not a directory") != std::string::npos);
    CHECK(refused(path, 1e18).find("it takes 1e+12 MB, and the disk has ") != std::string::npos);
    CHECK(tests::text_of(path) == "new");
    CHECK(refusal<examples::ArgumentError>([] { OutputFile().open("--out", ""); }) ==
          "--out:  cannot be written: it has no name");
    OutputFile full;
    full.open("--out", "/dev/full");
    full.write("new");
    CHECK(full.failure() == ENOSPC);
    CHECK(refusal<std::runtime_error>([&] { full.finish(); }) ==
          "--out: /dev/full cannot be written: No space left on device; check the disk");
}

TEST_CASE("an output file never opens existing files, and keeps its temporary name if it cannot be renamed",
          "[programs][sanitize]") {
    const tests::Folder folder;
    const std::string path = folder.path.string() + "/file", victim = folder.path.string() + "/victim",
                      part = path + "." + std::to_string(getpid());
    std::ofstream(victim) << "precious";
    std::filesystem::create_symlink(victim, part + ".part");
    std::ofstream(part + ".1.part") << "of another run";
    const auto write = [&](const std::function<void()> &before_the_end) {
        OutputFile file;
        file.open("--out", path);
        file.write("new");
        before_the_end();
        file.finish();
    };
    write([] {});
    CHECK(tests::text_of(path) == "new");
    CHECK_FALSE(std::filesystem::is_symlink(path));
    CHECK(tests::text_of(victim) == "precious");
    CHECK(tests::text_of(part + ".1.part") == "of another run");
    CHECK(files_in(folder.path) == 4);
    std::filesystem::remove(path);
    CHECK(refusal<std::runtime_error>([&] { write([&] { std::filesystem::create_directory(path); }); }) ==
          "--out: " + path + " cannot be replaced (Is a directory); the new file is whole and stays as " + part +
              ".2.part: move it");
    CHECK(tests::text_of(part + ".2.part") == "new");
    // A temporary file of a process that has ended is left over; files of this process are not.
    const pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    waitpid(gone, nullptr, 0);
    const std::string left = path + "." + std::to_string(gone) + ".part";
    std::ofstream(left) << "n";
    std::ofstream(path + ".x.part") << "n";
    std::filesystem::create_symlink("file", folder.path / "link");
    CHECK(milcgpu::parts_left_of(path) == left);
    CHECK(milcgpu::parts_left_of(folder.path / "link") == left);
    CHECK(milcgpu::parts_left_of(victim) == "");
    CHECK(milcgpu::parts_left_of(path + "/none/none") == "");
    // A disk without a size counts as large enough.
    const std::string sizeless = refusal<examples::ArgumentError>([] { OutputFile().open("--out", "/proc/x", 1e6); });
    CHECK(sizeless.find("cannot be written: ") != sizeless.npos);
    CHECK(sizeless.find("it takes") == sizeless.npos);
}

TEST_CASE("the output of a program never goes into its files if stdin, stdout or stderr is closed",
          "[programs][sanitize]") {
    const tests::Folder folder;
    const std::string path = folder.path.string() + "/file", other = folder.path.string() + "/other";
    std::ofstream(other) << "other";
    std::fflush(stdout);
    int kept[3];
    for (int k = 0; k < 3; ++k)
        kept[k] = fcntl(k, F_DUPFD_CLOEXEC, 3), close(k);
    OutputFile file;
    file.open("--out", path);
    milcgpu::OpenFile read, write;
    const int opened = read.open(other, false) + write.open(other, true);
    const milcgpu::HostSegment segment(4096);
    int free = 0;
    for (int k = 0; k < 3; ++k)
        free += fcntl(k, F_GETFD) < 0;
    const ssize_t printed = ::write(STDOUT_FILENO, "printed", 7);
    file.write("new");
    file.finish();
    for (int k = 0; k < 3; ++k)
        dup2(kept[k], k), close(kept[k]);
    CHECK(opened == 0);
    CHECK(free == 3);
    CHECK(printed == -1);
    CHECK(tests::text_of(path) == "new");
    CHECK(tests::text_of(other) == "other");
}

TEST_CASE("messages quote foreign text without control characters, and shorten it", "[programs][sanitize]") {
    using milcgpu::quoted;
    CHECK(quoted("plain 1.5") == "plain 1.5");
    CHECK(quoted("\x1b[2J\x07\t\n\r\x7f") == "\\x1b[2J\\x07\\t\\n\\x0d\\x7f");
    CHECK(quoted("\u00e9\u4e2d\U0001f600") == "\u00e9\u4e2d\U0001f600");
    CHECK(quoted("\xc2\x9b"
                 "2J\xe2\x80\xae") == "\\xc2\\x9b2J\\xe2\\x80\\xae");     // C1, and right-to-left override
    CHECK(quoted("\xff\xc0\x80\xe4\xb8") == "\\xff\\xc0\\x80\\xe4\\xb8"); // not UTF-8
    CHECK(quoted(std::string("a\0b", 3)) == "a\\x00b");
    CHECK(quoted(std::string(1 << 20, 'x')) == std::string(80, 'x') + "...");
    CHECK(quoted(std::string(1 << 20, '\xe8')).size() == 80 + 3); // as they appear: a message stays short
    CHECK(milcgpu::quoted_name(std::string(1 << 20, 'x')).size() < 5000);
    CHECK(milcgpu::printable("a\nb\x1b") == "a\nb\\x1b");
}

TEST_CASE("tables: cells are read as they were written, and each row has as many as the heading",
          "[programs][sanitize]") {
    const tests::Folder folder;
    const std::string path = folder.path.string() + "/csv";
    const Cells cells = {"APE step, all staples", "13 \"plain\"", "", "a", ","};
    CHECK(examples::csv_line(cells) == "\"APE step, all staples\",\"13 \"\"plain\"\"\",,a,\",\"\n");
    std::string line = examples::csv_line(cells);
    line.pop_back();
    CHECK(examples::csv_cells(line) == cells);
    {
        Csv csv;
        csv.open("--csv", path, {"what", "n", "x", "where"});
        csv.row("a, b", 3, 0.1234567, Cells{"host"});
        csv.row("\x1b[2J\n", 1, 2, "\u00e9\xff"); // as names of files may be
        CHECK(refusal<std::logic_error>([&] { csv.row(1, 2, 3); }) == "a row of 3 cells in a table of 4");
        csv.row("b", true, std::numeric_limits<double>::quiet_NaN(), "cuda");
        csv.finish();
        Csv none;
        none.open("--csv", "", {"what"});
        none.row(1);
        none.finish();
    }
    CHECK(tests::text_of(path) == "what,n,x,where\n\"a, b\",3,0.123457,host\n\\x1b[2J\\n,1,2,\u00e9\\xff\n"
                                  "b,1,nan,cuda\n");
    // If a run fails, its rows stay in the temporary file.
    {
        Csv csv(17);
        csv.open("--csv", path, {"x"});
        csv.row(0.1);
    }
    CHECK(tests::text_of(path).substr(0, 4) == "what");
    CHECK(tests::text_of(path + "." + std::to_string(getpid()) + ".part") == "x\n0.10000000000000001\n");
    Csv full;
    CHECK(refusal<examples::ArgumentError>([&] { full.open("--csv", "/dev/full", {"x"}); }) ==
          "--csv: /dev/full cannot be written: No space left on device");
}
