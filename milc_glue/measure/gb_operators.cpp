#include "milc_glue/measure/gb_operators.h"
#include "gpu_kernels/measure/spin_taste.h"
#include "milc_glue/api/checks.h"
#include <cmath>
#include <cstring>

namespace milcgpu {

namespace {

using Corners = std::array<int, 3>;

// The factors of the triples of corners of a class; 0: no further one.
struct Operator {
    const char *label;
    int factor[3];
};
constexpr Operator operators[] = {
    {"8 S 1", {1}},
    {"8 S 2", {1, 1, 1}},
    {"8 S 3", {1, 1, 1}},
    {"8 S 5", {1}},
    {"8 S 61", {1, -1, 1}},
    {"8' S 41", {1, -1, 1}},
    {"8' S 7", {1}},
    {"16+ S 2", {1, 1, -2}},
    {"16+ S 3", {1, 1, -2}},
    {"16+ S 41", {-1, -1}},
    {"16+ S 61", {1, -1, -2}},
    {"16- S 2", {1, -1}},
    {"16- S 3", {1, -1}},
    {"16- S 41", {1, -1, -2}},
    {"16- S 61", {1, 1}},
    {"8 A 41", {1, 1, 1}},
    {"8 A 61", {1, -1, 1}},
    {"8 A 7", {1}},
    {"16+ A 41", {1, 1, -2}},
    {"16+ A 61", {1, -1, -2}},
    {"16- A 41", {1, -1}},
    {"16- A 61", {1, 1}},
    {"8 M1/2 2", {1, 1, 1}},
    {"8 M1/2 3", {1, 1, 1}},
    {"8 M1/2 41", {1, 1, 1}},
    {"8 M1/2 5", {1}},
    {"8 M1/2 61", {1, -1, 1}},
    {"8 M1/2 62", {1, -1, 1}},
    {"8' M1/2 41", {1, -1, 1}},
    {"16+ M1/2 2", {1, 1, -2}},
    {"16+ M1/2 3", {1, 1, -2}},
    {"16+ M1/2 41", {1, 1, -2}},
    {"16+ M1/2 42", {-1, -1}},
    {"16+ M1/2 61", {1, -1, -2}},
    {"16+ M1/2 62", {1, -1, -2}},
    {"16+ M1/2 7", {1, -1}},
    {"16- M1/2 2", {1, -1}},
    {"16- M1/2 3", {1, -1}},
    {"16- M1/2 41", {1, -1}},
    {"16- M1/2 42", {1, -1, -2}},
    {"16- M1/2 61", {1, 1}},
    {"16- M1/2 62", {1, 1}},
    {"16- M1/2 7", {1, 1}},
};
constexpr int n_operators = sizeof operators / sizeof operators[0];

constexpr int corners_of_class[7][3][3] = {{{0, 0, 0}},
                                           {{0, 1, 1}, {0, 2, 2}, {0, 4, 4}},
                                           {{0, 6, 6}, {0, 5, 5}, {0, 3, 3}},
                                           {{6, 4, 2}, {5, 4, 1}, {3, 2, 1}},
                                           {{7, 7, 0}},
                                           {{7, 6, 1}, {7, 5, 2}, {7, 3, 4}},
                                           {{6, 5, 3}, {5, 6, 3}}};

const char *label_of(int index) {
    require_gb_operator(index, "index");
    return operators[index].label;
}
char symmetry_of(int index) { return std::strchr(label_of(index), ' ')[1]; }

constexpr int permutations[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
constexpr int sign_of_permutation[6] = {1, -1, -1, 1, 1, -1};
constexpr int cyclic[3][3] = {{0, 1, 2}, {1, 2, 0}, {2, 0, 1}};
constexpr double projector[3] = {2, -1, -1}; // onto mixed symmetry, of the cyclic permutations

Corners permuted(const Corners &k, const int (&p)[3]) { return {k[p[0]], k[p[1]], k[p[2]]}; }

// The operator before it is symmetrised, with norm 1.
std::vector<WeightedCorners> base(int index) {
    const std::string label = label_of(index);
    const int number = std::stoi(label.substr(label.rfind(' '))), of_class = number > 9 ? number / 10 : number;
    double norm = 0;
    for (const int p : operators[index].factor)
        norm += p * p;
    std::vector<WeightedCorners> list;
    for (int j = 0; j < 3 && operators[index].factor[j] != 0; ++j) {
        const double w = operators[index].factor[j] / std::sqrt(norm);
        const int(&k)[3] = corners_of_class[of_class - 1][j];
        const Corners straight = {k[0], k[1], k[2]}, crossed = {k[0], k[2], k[1]}, turned = {k[2], k[0], k[1]};
        if (!is_mixed(index))
            list.push_back({w, straight});
        else if (of_class == 4) { // both orders; 8' is even in them where the others are odd, and the other way for 42
            const bool odd = number == 41 && label.rfind("8'", 0) != 0;
            list.push_back({w / std::sqrt(2.0), straight});
            list.push_back({(odd ? -w : w) / std::sqrt(2.0), crossed});
        } else
            list.push_back({w, number == 62 ? crossed : of_class == 5 || of_class == 7 ? turned : straight});
    }
    return list;
}

void add_permutations(std::vector<WeightedCorners> &list, const WeightedCorners &one, bool antisymmetric) {
    for (int j = 0; j < 6; ++j)
        list.push_back(
            {(antisymmetric ? sign_of_permutation[j] : 1) * one.weight / 6, permuted(one.corners, permutations[j])});
}

} // namespace

void require_gb_operator(int index, const std::string &argument) {
    if (index < 0 || index >= n_operators)
        refuse(format("%s is %d: operators have numbers from 0 to %d (milcgpu_gb_operator_index)", argument.c_str(),
                      index, n_operators - 1));
}

bool is_mixed(int index) { return symmetry_of(index) == 'M'; }

std::string gb_operator_label(int index) { return label_of(index); }

int gb_operator_index(const std::string &label) {
    const std::string known = label == "8 M1/2 42" ? "8 M1/2 41" : label == "8' M1/2 42" ? "8' M1/2 41" : label;
    for (int k = 0; k < n_operators; ++k)
        if (known == operators[k].label)
            return k;
    refuse(
        format("there is no operator \"%.40s\": its label is irrep, symmetry and class, for example \"16+ M1/2 42\" or "
               "\"8 S 61\" (milcgpu_baryons.h)",
               label.c_str()));
}

std::vector<WeightedCorners> gb_source(int index, bool has_current) {
    std::vector<WeightedCorners> list;
    for (const WeightedCorners &one : base(index)) {
        if (!is_mixed(index)) {
            add_permutations(list, one, symmetry_of(index) == 'A');
            continue;
        }
        for (int j = 0; j < 3; ++j) {
            const Corners q = permuted(one.corners, cyclic[j]);
            const double w = projector[j] * one.weight;
            if (has_current) { // the third quark is the struck one: it takes one of the first two places
                list.push_back({w, {q[0], q[2], q[1]}});
                list.push_back({w, {q[1], q[2], q[0]}});
            } else
                list.push_back({w, q});
        }
    }
    return list;
}

std::vector<WeightedCorners> gb_sink(int index, int flip, bool whole) {
    std::vector<WeightedCorners> list;
    for (WeightedCorners one : base(index)) {
        for (int &k : one.corners)
            k ^= flip;
        const char symmetry = symmetry_of(index);
        if (symmetry == 'A' || (symmetry == 'S' && whole))
            add_permutations(list, one, symmetry == 'A');
        else if (symmetry == 'S')
            list.push_back(one);
        else
            for (const Corners &order : {one.corners, Corners{one.corners[1], one.corners[0], one.corners[2]}})
                for (int j = 0; j < (whole ? 3 : 1); ++j)
                    list.push_back({(whole ? projector[j] : 3) * one.weight, permuted(order, cyclic[j])});
    }
    return list;
}

GbCurrent gb_current(int number) {
    if (number < first_general || number >= end_of_general)
        refuse(format("spec.current is %d%s: must be MILCGPU_TWO_POINT or the number of SPIN-TASTE, such as GX-G1",
                      number, number >= 0 && number < first_general ? ", a name of MILC's mesons" : ""));
    const SpinTaste op = spin_taste(number);
    const int spin = static_cast<int>(op.spin & 7u), taste = static_cast<int>(op.taste & 7u), step = spin ^ taste,
              links = (step & 1) + (step >> 1 & 1) + (step >> 2);
    // The direction of a corner with one bit, or the one that a corner with two bits lacks; -1: no bits or three.
    constexpr int axis[8] = {-1, 0, 1, 2, 2, 1, 0, -1};
    constexpr int eta[3] = {0, 1, 3}, zeta[3] = {6, 4, 0};
    int signs = (op.taste & 8u) != 0 ? 7 : 0;
    if (links > 1)
        signs ^= 2;
    if (axis[taste] < 0) {
        if ((links == 1 || links == 2) && axis[spin] >= 0)
            signs ^= eta[axis[spin]];
    } else if (links == 0 || links == 3)
        signs ^= axis[spin] >= 0 ? 7 ^ 1 << axis[spin] : 7;
    else
        signs ^= axis[spin] < 0 ? zeta[axis[taste]] : 7 ^ eta[axis[spin]] ^ 1 << axis[taste];
    return {step, signs};
}

} // namespace milcgpu
