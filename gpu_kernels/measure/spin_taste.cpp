#include "gpu_kernels/measure/spin_taste.h"
#include "gpu_kernels/machine/error.h"

namespace milcgpu {

namespace {

// In MILC's order, with their directions as bits.
constexpr struct {
    const char *name;
    unsigned bits;
} gammas[16] = {{"GX", 1},  {"GY", 2},   {"GZ", 4},   {"GT", 8},   {"G5", 15},  {"GYZ", 6},  {"GZX", 5}, {"GXY", 3},
                {"GXT", 9}, {"GYT", 10}, {"GZT", 12}, {"G5X", 14}, {"G5Y", 13}, {"G5Z", 11}, {"G5T", 7}, {"G1", 0}};

// The operators with names, in MILC's order: their spin and taste, some with a minus sign.
constexpr struct {
    const char *name, *spin, *taste;
    bool negative;
} named[] = {{"pion5", "G5", "G5", false},   {"pion05", "G1", "G1", false},      {"pioni5", "G5", "G5Z", true},
             {"pionij", "G1", "GZ", false},  {"pioni", "G1", "GXY", false},      {"pioni0", "GT", "G5Z", false},
             {"pions", "G1", "G5T", false},  {"pion0", "GT", "G5", true},        {"rhoi", "GZ", "GZ", false},
             {"rhox", "GX", "GX", false},    {"rhoy", "GY", "GY", false},        {"rhoz", "GZ", "GZ", false},
             {"rhoi0", "GZT", "GZT", false}, {"rhox0", "GXT", "GXT", false},     {"rhoy0", "GYT", "GYT", false},
             {"rhoz0", "GZT", "GZT", false}, {"rhoxs", "GX", "G1", false},       {"rhoys", "GY", "G1", false},
             {"rhozs", "GZ", "G1", false},   {"rhots", nullptr, nullptr, false}, {"rhois", "GZ", "G1", false},
             {"rho0", "GZT", "GT", true}};
constexpr int n_named = sizeof named / sizeof *named;

// Then the vector currents: rho, direction, s, forward or backward, links.
constexpr struct {
    const char *ending;
    SpinTaste::Kind kind;
    bool fat;
} currents[] = {{"sfn", SpinTaste::Kind::pair, true},       {"sffn", SpinTaste::Kind::forward, true},
                {"sbfn", SpinTaste::Kind::backward, true},  {"sape", SpinTaste::Kind::pair, false},
                {"sfape", SpinTaste::Kind::forward, false}, {"sbape", SpinTaste::Kind::backward, false}};
constexpr int n_below_128 = n_named + 4 * (sizeof currents / sizeof *currents);

int gamma_index(const std::string &name) {
    for (int k = 0; k < 16; ++k)
        if (name == gammas[k].name)
            return k;
    return -1;
}

bool odd_bits(unsigned bits) {
    bool odd = false;
    for (; bits != 0; bits &= bits - 1)
        odd = !odd;
    return odd;
}

// Staggered phases: x (-1)^t, y (-1)^(t+x), z (-1)^(t+x+y).
constexpr unsigned phase_masks[4] = {8, 9, 11, 0};
constexpr unsigned all_directions = 15;

// The directions of an operator, with the one that acts first before the others.
std::array<int, 4> reference_order(unsigned directions, int &count) {
    std::array<int, 4> order{};
    count = 0;
    for (int mu = 0; mu < 4; ++mu)
        if ((directions >> mu & 1) != 0)
            order[count++] = mu;
    if (count == 2 && directions != 5)
        std::swap(order[0], order[1]);
    return order;
}

} // namespace

SpinTaste spin_taste(int index) {
    SpinTaste op;
    if (index >= first_general && index < end_of_general) {
        op.spin = gammas[(index - first_general) / 16].bits;
        op.taste = gammas[(index - first_general) % 16].bits;
        return op;
    }
    if (index < 0 || index >= n_below_128)
        throw Error(Status::bad_argument,
                    format("spin_taste: index %d: there are 0 to %d (names) and %d to %d (128 + 16 spin + taste)",
                           index, n_below_128 - 1, first_general, end_of_general - 1));
    if (index >= n_named) {
        const auto &current = currents[(index - n_named) / 4];
        op.kind = current.kind, op.direction = (index - n_named) % 4, op.fat = current.fat;
        return op;
    }
    if (named[index].spin == nullptr)
        throw Error(Status::bad_argument, format("spin-taste operator %s has a name in MILC, but no definition: use "
                                                 "rhotsffn, rhotsbfn, rhotsfape or rhotsbape, or GT-G1",
                                                 named[index].name));
    op.spin = gammas[gamma_index(named[index].spin)].bits;
    op.taste = gammas[gamma_index(named[index].taste)].bits;
    op.negative = named[index].negative;
    return op;
}

int spin_taste_index(const std::string &label) {
    for (int index = 0; index < n_below_128; ++index)
        if (label == spin_taste_label(index))
            return index;
    const size_t hyphen = label.find('-');
    const int spin = hyphen == std::string::npos ? -1 : gamma_index(label.substr(0, hyphen));
    const int taste = hyphen == std::string::npos ? -1 : gamma_index(label.substr(hyphen + 1));
    if (spin < 0 || taste < 0)
        throw Error(Status::bad_argument,
                    format("spin-taste operator '%s' is unknown: it must be one of MILC's names (pion5, rhoxs, ..) or "
                           "SPIN-TASTE of GX GY GZ GT G5 GYZ GZX GXY GXT GYT GZT G5X G5Y G5Z G5T G1",
                           label.c_str()));
    return first_general + 16 * spin + taste;
}

int spin_taste_index(int spin, int taste) {
    int numbers[2] = {-1, -1};
    for (int k = 0; k < 16; ++k) {
        numbers[0] = static_cast<int>(gammas[k].bits) == spin ? k : numbers[0];
        numbers[1] = static_cast<int>(gammas[k].bits) == taste ? k : numbers[1];
    }
    if (numbers[0] < 0 || numbers[1] < 0)
        throw Error(Status::bad_argument,
                    format("spin is %d, taste %d: must be from 0 to 15, sums of 1 x, 2 y, 4 z, 8 t", spin, taste));
    return first_general + 16 * numbers[0] + numbers[1];
}

std::string spin_taste_label(int index) {
    if (index >= 0 && index < n_named)
        return named[index].name;
    if (index >= n_named && index < n_below_128)
        return std::string("rho") + "xyzt"[(index - n_named) % 4] + currents[(index - n_named) / 4].ending;
    spin_taste(index); // refuses it
    return std::string(gammas[(index - first_general) / 16].name) + "-" + gammas[(index - first_general) % 16].name;
}

SignPattern relative_to(SignPattern s, const int *origin) {
    unsigned odd = 0;
    for (int mu = 0; mu < 4; ++mu)
        odd |= static_cast<unsigned>(origin[mu] & 1) << mu;
    return {s.mask, s.negative != odd_bits(s.mask & odd)};
}

SignPattern phases_of(int mu, const int *origin) { return relative_to({phase_masks[mu], false}, origin); }

SignPattern signs_of(const SpinTaste &op, const int *origin) {
    if (op.kind != SpinTaste::Kind::general) {
        const SignPattern parity = {all_directions, op.negative}; // of the site itself, not relative to the origin
        return op.fat ? parity : parity * phases_of(op.direction, origin);
    }
    // From the left, each sign is taken at the place that the steps before it have reached.
    unsigned place = 0;
    SignPattern s = {all_directions, op.negative};
    const auto multiply = [&](unsigned mask) { s = s * SignPattern{mask, odd_bits(mask & place)}; };
    int count;
    const auto order = reference_order(op.directions(), count);
    for (int k = count - 1; k >= 0; --k) {
        const unsigned bit = 1u << order[k];
        multiply(all_directions ^ bit ^ phase_masks[order[k]]);
        place ^= bit;
    }
    for (int mu = 0; mu < 4; ++mu)
        if ((op.spin >> mu & 1) != 0)
            multiply(all_directions ^ 1u << mu);
    return relative_to(s, origin);
}

} // namespace milcgpu
