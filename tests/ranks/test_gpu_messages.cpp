// Messages that leave from GPU memory and arrive there (on the host backend, from its stand-in): results are those of
// one rank. If the message passing does not do that well, all ranks find out at their start and say why.
#include "gpu_kernels/halo/halo.h"
#include "gpu_kernels/halo/message_groups.h"
#include "tests/cut_support.h"
#include <cstddef>

using namespace milcgpu;
using namespace tests;

namespace {

using OnGpu = Mailroom::OnGpu;

// All that ranks exchange between launches: ghosts of one vector and of several, of links, margins, corners.
struct Exchanged {
    std::vector<double> d, fat, lng, solution, others;
    bool well = false;
    long gpu_messages = 0;
};

Exchanged made_on(const Fields &fields, const Cut &cut, Backend backend,
                  const std::function<void(Mailroom &)> &prepare) {
    Exchanged made;
    const size_t reals = fields.source.size();
    for (std::vector<double> *field : {&made.d, &made.solution, &made.others})
        field->assign(reals, 0);
    made.fat = made.lng = std::vector<double>(12 * reals);
    const auto endings = on_cut(
        fields, cut, backend,
        [&](Here &here, Ending &) {
            std::vector<double> d(here.source.size()), x[2], fat(here.fat.size()), lng(here.lng.size());
            x[0] = x[1] = d;
            const milcgpu_field b = field_of(here.source), to = field_of(d), sources[2] = {b, b},
                                solutions[2] = {field_of(x[0]), field_of(x[1])}, to_fat = field_of(fat),
                                to_lng = field_of(lng), u = field_of(here.fat);
            milcgpu_storage what{};
            what.precision = MILCGPU_DOUBLE;
            auto spec = sized<milcgpu_solve_spec>();
            spec.parity = MILCGPU_EVEN;
            spec.mass = 0.3, spec.tolerance = 1e-10;
            spec.max_iterations = 500, spec.max_restarts = 5;
            spec.precise.precision = MILCGPU_DOUBLE, spec.sloppy.precision = MILCGPU_SINGLE;
            auto paths = filled(milcgpu_asqtad_defaults, 0.9);
            paths.unitarity = -1;
            const milcgpu_fatlink_set set{0, &to_fat, &to_lng, nullptr};
            for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
                demand(milcgpu_staggered_dslash(here.links, &what, parity, &b, &to));
            demand(milcgpu_links_make(here.context, &paths, &u, &set, 1, nullptr, nullptr));
            demand(milcgpu_staggered_solve_sources(here.links, &spec, MILCGPU_TOGETHER_AUTO, 2, sources, solutions,
                                                   nullptr));
            Fields::put(made.d, d, here.places);
            Fields::put(made.solution, x[0], here.places);
            Fields::put(made.others, x[1], here.places);
            Fields::put(made.fat, fat, here.places, 72);
            Fields::put(made.lng, lng, here.places, 72);
            if (here.rank() == 0)
                made.gpu_messages = here.room->gpu_messages();
        },
        prepare);
    made.well = all_well(endings);
    return made;
}

void all_say_gpu_memory(Mailroom &room, int ranks) {
    for (int rank = 0; rank < ranks; ++rank)
        room.say_gpu_memory(rank, true);
}

// The context of each of two ranks, and what it logs at its start.
struct Started {
    std::vector<int> tried, work; // 1 or 0
    std::vector<std::string> how;
    long gpu_messages = 0, after = 0; // messages at the start, and in D
    double seconds = 0;
    bool well = false;
};
Started started(const std::function<void(Mailroom &)> &prepare) {
    static const Cut cut{{4, 4, 4, 8}, {1, 1, 1, 2}, 0};
    static const Fields fields = fields_on(cut.whole, false);
    Started all{std::vector<int>(2), std::vector<int>(2), std::vector<std::string>(2)};
    std::vector<long> before(2), after(2);
    const auto endings = on_cut(
        fields, cut, Backend::host,
        [&](Here &here, Ending &) {
            const Halo &halo = *here.context->halo;
            all.tried[here.rank()] = halo.tried_gpu_messages(), all.work[here.rank()] = halo.gpu_messages();
            all.how[here.rank()] = halo.how_messages_travel();
            here.context->ranks->gathered("a test", 1); // all have started
            before[here.rank()] = here.room->gpu_messages();
            here.context->ranks->gathered("a test", 1);
            std::vector<double> d(here.source.size());
            const milcgpu_field b = field_of(here.source), to = field_of(d);
            milcgpu_storage what{};
            what.precision = MILCGPU_DOUBLE;
            demand(milcgpu_staggered_dslash(here.links, &what, MILCGPU_ODD, &b, &to));
            here.context->ranks->gathered("a test", 1);
            after[here.rank()] = here.room->gpu_messages();
        },
        prepare);
    all.well = all_well(endings);
    all.gpu_messages = before[0], all.after = after[0] - before[0];
    for (const Ending &ending : endings)
        all.seconds = std::max(all.seconds, ending.seconds);
    return all;
}

// Expects that both ranks send through the host, for this reason.
void falls_back(const std::string &why, bool tried, const std::function<void(Mailroom &)> &prepare) {
    const Started found = started(prepare);
    CAPTURE(why, found.how[0]);
    CHECK(found.well);
    for (const int rank : {0, 1}) {
        CHECK(found.how[rank] == found.how[0]);
        CHECK(found.work[rank] == 0);
        CHECK(found.tried[rank] == tried);
    }
    CHECK(has(found.how[0], "; messages in t: through memory of the host (" + why));
    CHECK(found.after == 0);
    CHECK((found.gpu_messages > 0) == tried);
    CHECK(found.seconds < 20);
}

} // namespace

TEST_CASE("messages in GPU memory: D, solves and links have the bits of messages through the host",
          "[ranks][cut][gpu_mpi][sanitize]") {
    // A row of two and of three ranks, corners, boxes of several sizes, and a direction in which ranks send to
    // themselves.
    const std::vector<Cut> cuts = sampled<Cut>({{{4, 4, 4, 8}, {1, 1, 1, 2}, 0},
                                                {{4, 4, 4, 12}, {1, 1, 1, 3}, 0},
                                                {{6, 10, 4, 4}, {2, 2, 1, 1}, 0},
                                                {{4, 4, 4, 8}, {1, 1, 1, 2}, 0, 1},
                                                {{4, 4, 4, 8}, {1, 1, 1, 2}, 5}},
                                               2);
    for (const Backend backend : backends())
        for (const Cut &cut : cuts) {
            CAPTURE(text_of(cut), name(backend));
            const Fields fields = fields_on(cut.whole, false);
            // On GPUs, for one cut: messages of the recorded step, too, if they arrive while kernels wait.
            const Environment way{{"MILCGPU_DIRECT", "0"}, {"MILCGPU_GPU_MPI", &cut == &cuts[0] ? "step" : "auto"}};
            const Exchanged host = [&] {
                const Environment through_host{{"MILCGPU_GPU_MPI", "auto"}};
                return made_on(fields, cut, backend, {});
            }();
            REQUIRE(host.well); // fails with what the ranks logged
            const Exchanged gpu =
                made_on(fields, cut, backend, [&](Mailroom &room) { all_say_gpu_memory(room, cut.ranks()); });
            REQUIRE(gpu.well);
            CHECK(host.gpu_messages == 0);
            // The recorded step of a solve on a GPU sends through the host, so that links, margins and D remain.
            CHECK(gpu.gpu_messages >= (backend == Backend::cuda ? 16 : 100));
            CHECK(same_bits(gpu.d, host.d));
            CHECK(same_bits(gpu.fat, host.fat));
            CHECK(same_bits(gpu.lng, host.lng));
            CHECK(same_bits(gpu.solution, host.solution));
            CHECK(same_bits(gpu.others, host.others));
        }
}

TEST_CASE("messages in GPU memory: all ranks log why the message passing or a test rules them out",
          "[ranks][cut][gpu_mpi][faults]") {
    const Started good = started([](Mailroom &room) { all_say_gpu_memory(room, 2); });
    CHECK(good.well);
    CHECK(good.how[1] ==
          "; messages in t: from GPU memory into GPU memory (the mailroom: yes; a test pattern came whole "
          "on all ranks)");
    CHECK(good.how[0] == good.how[1]);
    CHECK(good.gpu_messages > 0);
    CHECK(good.after > 0);

    falls_back("the mailroom: no)", false, {});
    falls_back("the mailroom: no)", false, [](Mailroom &room) { room.say_gpu_memory(0, true); });
    const auto one_does = [](int rank, OnGpu what) {
        return [=](Mailroom &room) {
            all_say_gpu_memory(room, 2);
            room.on_gpu(rank, what);
        };
    };
    for (const int rank : {0, 1}) {
        const std::string here = "rank " + std::to_string(rank) + " of 2: ", other = std::to_string(1 - rank);
        falls_back(here + "2 of 1728 words from rank " + other + " (behind in t) were wrong)", true,
                   one_does(rank, OnGpu::wrong));
        falls_back(here + "the caller's message passing could not start messages with rank " + other +
                       " (behind in t, ahead in t): code 77)",
                   true, one_does(rank, OnGpu::refused));
    }
    const Environment limit{{"MILCGPU_TIMEOUT", "2"}};
    falls_back("rank 0 of 2: messages with rank 1 (behind in t, ahead in t) did not come within 0.5 s)", true,
               [](Mailroom &room) {
                   all_say_gpu_memory(room, 2);
                   room.on_gpu(0, OnGpu::never), room.on_gpu(1, OnGpu::never);
               });
    falls_back("rank 0 of 2: messages with rank 1 (", true, one_does(1, OnGpu::never)); // rank 1 receives none
}

TEST_CASE("kernels do not wait for messages that arrive only when kernels end", "[ranks][gpu_mpi]") {
    for (const bool to_the_end : {true, false}) {
        std::vector<GpuMessagesFound> found(2);
        std::vector<int> begun(2);
        CHECK(all_well(on_ranks(2, [&](Ranks &ranks) {
            Device device(Backend::host, 0);
            const int rank = ranks.rank();
            std::array<int, Peers::faces> neighbour;
            neighbour.fill(-1);
            neighbour[6] = neighbour[7] = 1 - rank;
            const auto memory = [&] { return lasting_memory(device, Lasting::device, 4096); };
            const DuringTrial during{[&begun, rank] { ++begun[rank]; }, [=] { return to_the_end || rank == 0; }};
            found[rank] = try_gpu_messages(device, ranks, neighbour, memory(), memory(), 4096, "", during);
        })));
        CHECK(begun == std::vector<int>{1, 1});
        CHECK(found[0].work == to_the_end);
        CHECK(found[1].why == found[0].why);
        CHECK(has(found[0].why, to_the_end ? "a test pattern came whole on all ranks"
                                           : "rank 1 of 2: they came only after the kernels had stopped waiting"));
    }
}

TEST_CASE("messages that were tried and did not arrive leave the ranks as they were and keep their memory",
          "[ranks][gpu_mpi][sanitize]") {
    std::vector<std::weak_ptr<std::vector<int>>> kept(2);
    CHECK(all_well(on_ranks(2, [&](Ranks &ranks) {
        auto memory = std::make_shared<std::vector<int>>(2, ranks.rank());
        kept[ranks.rank()] = memory;
        const int other = 1 - ranks.rank();
        const auto message = [&](int peer, const void *send, void *receive, int tag) {
            return Message{peer, send, receive, sizeof(int), tag, "ahead in t"};
        };
        const auto demand_of = [](const Ranks::Tried &tried, Status status, const std::string &why) {
            if (tried.status != status || tried.why != why)
                throw Error(Status::comm, "not as expected: " + tried.why);
        };
        int *const mine = memory->data(), *const theirs = mine + 1;
        demand_of(ranks.try_messages("a test", {message(other, nullptr, theirs, 5)}, memory, 0.2), Status::timed_out,
                  format("messages with rank %d (ahead in t) did not come within 0.2 s", other));
        const auto more = std::make_shared<std::vector<int>>(2, ranks.rank());
        demand_of(ranks.try_messages("a test", {message(other, mine, more->data(), 6)}, more, 20), Status::ok, "");
        if ((*more)[0] != other || ranks.gathered("a test", ranks.rank())[other] != other)
            throw Error(Status::comm, "what came is wrong");
    })));
    for (const auto &memory : kept)
        CHECK_FALSE(memory.expired());

    // The same for the messages of a context.
    const void *lost = nullptr;
    size_t bytes = 0;
    const Cut cut{{4, 4, 4, 8}, {1, 1, 1, 2}, 0};
    const Environment limit{{"MILCGPU_TIMEOUT", "2"}};
    CHECK(all_well(on_cut(
        fields_on(cut.whole, false), cut, Backend::host,
        [&](Here &here, Ending &) {
            if (here.rank() == 0) {
                lost = here.room->gpu_address();
                bytes = 4 * here.context->geometry.ghost_sites() * spinor_bytes(Precision::double_);
            }
        },
        [](Mailroom &room) {
            all_say_gpu_memory(room, 2);
            room.on_gpu(0, OnGpu::never), room.on_gpu(1, OnGpu::never);
        })));
    REQUIRE(lost != nullptr);
    Device device(Backend::host, 0);
    for (int k = 0; k < 50; ++k) {
        const unsigned char *const block = take_lasting(device, Lasting::device, bytes);
        CHECK_FALSE((std::less_equal<const void *>()(block, lost) && std::less<const void *>()(lost, block + bytes)));
    }
}

TEST_CASE("MILCGPU_GPU_MPI=0 never uses messages in GPU memory, 1 also if the message passing does not support them",
          "[ranks][cut][gpu_mpi]") {
    {
        const Environment off{{"MILCGPU_GPU_MPI", "0"}};
        falls_back("MILCGPU_GPU_MPI=0)", false, [](Mailroom &room) { all_say_gpu_memory(room, 2); });
    }
    {
        const Environment on{{"MILCGPU_GPU_MPI", "1"}};
        const Started tried = started({});
        CHECK(tried.well);
        CHECK(has(tried.how[0], "(MILCGPU_GPU_MPI=1; a test pattern came whole on all ranks)"));
        CHECK(tried.after > 0);
        falls_back("rank 0 of 2: 2 of 1728 words", true, [](Mailroom &room) { room.on_gpu(0, OnGpu::wrong); });
    }
    const Environment neither{{"MILCGPU_GPU_MPI", "yes"}};
    static const Cut cut{{4, 4, 4, 8}, {1, 1, 1, 2}, 0};
    CHECK(all_ended(on_cut(fields_on(cut.whole, false), cut, Backend::host, [](Here &, Ending &) {}),
                    Status::bad_argument, "MILCGPU_GPU_MPI=yes"));
}

TEST_CASE("messages in GPU memory: MILCGPU_TEST=check_halo finds one that changes on the way",
          "[ranks][cut][gpu_mpi][faults]") {
    static const Cut cut{{4, 4, 4, 8}, {1, 1, 1, 2}, 0};
    const Environment environment{{"MILCGPU_TEST", "check_halo"}};
    for (const bool spoiled : {false, true}) {
        const auto endings = on_cut(
            fields_on(cut.whole, false), cut, Backend::host,
            [&](Here &here, Ending &ending) {
                here.context->ranks->gathered("a test", 1);
                if (spoiled && here.rank() == 1)
                    here.room->on_gpu(1, OnGpu::wrong);
                std::vector<double> d(here.source.size());
                const milcgpu_field b = field_of(here.source), to = field_of(d);
                milcgpu_storage what{};
                what.precision = MILCGPU_DOUBLE;
                ending.status = milcgpu_staggered_dslash(here.links, &what, MILCGPU_ODD, &b, &to);
                ending.text = ending.status == MILCGPU_OK ? "" : milcgpu_last_error();
            },
            [](Mailroom &room) { all_say_gpu_memory(room, 2); });
        if (spoiled)
            CHECK(all_ended(endings, Status::comm, "rank 1 of 2: the halo of a vector: 4624 bytes from rank 0 of 2 ("));
        else
            CHECK(all_well(endings));
    }
}

TEST_CASE("a message table without the functions for GPU memory still works", "[ranks][gpu_mpi]") {
    Mailroom room(2);
    all_say_gpu_memory(room, 2);
    const auto start = [&](size_t size) {
        return on_threads(2, [&](int rank, Ending &ending) {
            milcgpu_messages table = room.table(rank);
            table.struct_size = size;
            milcgpu_layout layout = layout_on_grid({4, 4, 4, 8}, {1, 1, 1, 2}, rank);
            layout.messages = &table;
            milcgpu_context *context = nullptr;
            auto options = sized<milcgpu_options>();
            options.backend = MILCGPU_HOST;
            demand(milcgpu_context_create(&layout, &options, &context));
            ending.text = context->halo->how_messages_travel();
            milcgpu_context_destroy(context);
        });
    };
    const size_t old = offsetof(milcgpu_messages, gpu_memory);
    for (const Ending &ending : start(old)) {
        CHECK(ending.status == MILCGPU_OK);
        CHECK(has(ending.text, "GPU addresses"));
    }
    CHECK(all_ended(start(old - 8), Status::bad_argument, "milcgpu_messages.struct_size is "));
    CHECK(all_ended(start(sizeof(milcgpu_messages) + 8), Status::bad_argument, "milcgpu_messages.struct_size is "));
}

TEST_CASE("messages through the host go in groups: every byte once, in order, with the receiver's parts",
          "[ranks][gpu_mpi][sanitize]") {
    const auto text_of_groups = [](const std::vector<size_t> &pieces, size_t most) {
        std::string text;
        for (const MessageGroup &group : groups_of(pieces, most)) {
            text += format("[%zu", group.first);
            for (const MessageGroup::Part &part : group.parts)
                text += format(" %d:%zu+%zu", part.piece, part.first, part.bytes);
            text += format(" =%zu]", group.bytes);
        }
        return text;
    };
    CHECK(text_of_groups({}, 16) == "");
    CHECK(text_of_groups({32, 0, 16, 48}, 1000) == "[0 0:0+32 2:32+16 3:48+48 =96]");
    CHECK(text_of_groups({32, 16, 64}, 48) == "[0 0:0+32 1:32+16 =48][48 2:48+48 =48][96 2:96+16 =16]");
    CHECK(text_of_groups({80}, 32) == "[0 0:0+32 =32][32 0:32+32 =32][64 0:64+16 =16]");
}
