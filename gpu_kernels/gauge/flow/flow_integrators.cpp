#include "gpu_kernels/gauge/flow/flow_integrators.h"
#include <algorithm>
#include <cmath>

namespace milcgpu {

namespace {

const std::vector<double> williamson_keep = {0, -17.0 / 32, -32.0 / 27},
                          williamson_factor = {1.0 / 4, 8.0 / 9, 3.0 / 4};

const FlowIntegrator luescher = {"Luescher", 3, williamson_keep, williamson_factor, {}, {}, false, {}};

const FlowIntegrator carpenter_kennedy = {"CK",
                                          4,
                                          {0, -567301805773.0 / 1357537059087, -2404267990393.0 / 2016746695238,
                                           -3550918686646.0 / 2091501179385, -1275806237668.0 / 842570457699},
                                          {1432997174477.0 / 9575080441755, 5161836677717.0 / 13612068292357,
                                           1720146321549.0 / 2090206949498, 3134564353537.0 / 4481467310338,
                                           2277821191437.0 / 14882151754819},
                                          {},
                                          {},
                                          false,
                                          {}};

const FlowIntegrator berland_bogey_bailly = {
    "BBB",
    4,
    {0, -0.737101392796, -1.634740794341, -0.744739003780, -1.469897351522, -2.813971388035},
    {0.032918605146, 0.823256998200, 0.381530948900, 0.200092213184, 1.718581042715, 0.27},
    {},
    {},
    false,
    {}};

const FlowIntegrator commutator_free = {"CF3", 3, {0, -5.0 / 9, -153.0 / 128}, {1.0 / 3, 15.0 / 16, 8.0 / 15}, {}, {},
                                        false, {}};

const FlowIntegrator rkmk3 = {"RKMK3", 3, {}, {}, {{}, {1.0 / 2}, {0, 3.0 / 4}}, {2.0 / 9, 1.0 / 3, 4.0 / 9}, true, {}};

const FlowIntegrator rkmk4 = {
    "RKMK4", 4, {}, {}, {{}, {1.0 / 3}, {-1.0 / 3, 1}, {1, -1, 1}}, {1.0 / 8, 3.0 / 8, 3.0 / 8, 1.0 / 8}, false, {}};

const FlowIntegrator rkmk5 = {"RKMK5",
                              5,
                              {},
                              {},
                              {{},
                               {1.0 / 4},
                               {1.0 / 8, 1.0 / 8},
                               {0, -1.0 / 2, 1},
                               {3.0 / 16, 0, 0, 9.0 / 16},
                               {-3.0 / 7, 2.0 / 7, 12.0 / 7, -12.0 / 7, 8.0 / 7}},
                              {7.0 / 90, 0, 32.0 / 90, 12.0 / 90, 32.0 / 90, 7.0 / 90},
                              false,
                              {}};

const FlowIntegrator rkmk8 = {
    "RKMK8",
    8,
    {},
    {},
    {{},
     {1.0 / 18},
     {1.0 / 48, 1.0 / 16},
     {1.0 / 32, 0, 3.0 / 32},
     {5.0 / 16, 0, -75.0 / 64, 75.0 / 64},
     {3.0 / 80, 0, 0, 3.0 / 16, 3.0 / 20},
     {29443841.0 / 614563906, 0, 0, 77736538.0 / 692538347, -28693883.0 / 1125000000, 23124283.0 / 1800000000},
     {16016141.0 / 946692911, 0, 0, 61564180.0 / 158732637, 22789713.0 / 633445777, 545815736.0 / 2771057229,
      -180193667.0 / 1043307555},
     {39632708.0 / 573591083, 0, 0, -433636366.0 / 683701615, -421739975.0 / 2616292301, 100302831.0 / 723423059,
      790204164.0 / 839813087, 800635310.0 / 3783071287},
     {246121993.0 / 1340847787, 0, 0, -37695042795.0 / 15268766246, -309121744.0 / 1061227803, -12992083.0 / 490766935,
      6005943493.0 / 2108947869, 393006217.0 / 1396673457, 123872331.0 / 1001029789},
     {-1028468189.0 / 846180014, 0, 0, 8478235783.0 / 508512852, 1311729495.0 / 1432422823, -10304129995.0 / 1701304382,
      -48777925059.0 / 3047939560, 15336726248.0 / 1032824649, -45442868181.0 / 3398467696, 3065993473.0 / 597172653},
     {185892177.0 / 718116043, 0, 0, -3185094517.0 / 667107341, -477755414.0 / 1098053517, -703635378.0 / 230739211,
      5731566787.0 / 1027545527, 5232866602.0 / 850066563, -4093664535.0 / 808688257, 3962137247.0 / 1805957418,
      65686358.0 / 487910083},
     {403863854.0 / 491063109, 0, 0, -5068492393.0 / 434740067, -411421997.0 / 543043805, 652783627.0 / 914296604,
      11173962825.0 / 925320556, -13158990841.0 / 6184727034, 3936647629.0 / 1978049680, -160528059.0 / 685178525,
      248638103.0 / 1413531060, 0}},
    {14005451.0 / 335480064, 0, 0, 0, 0, -59238493.0 / 1068277825, 181606767.0 / 758867731, 561292985.0 / 797845732,
     -1041891430.0 / 1371343529, 760417239.0 / 1151165299, 118820643.0 / 751138087, -528747749.0 / 2220607170, 1.0 / 4},
    false,
    {}};

const FlowIntegrator adaptive_luescher = {"adaptive Luescher", 3, williamson_keep, williamson_factor, {}, {}, false,
                                          {-1, 2, 0}};

const FlowIntegrator bogacki_shampine = {
    "adaptive BS", 3, {}, {}, rkmk3.table, rkmk3.weights, true, {7.0 / 24, 1.0 / 4, 1.0 / 3, 1.0 / 8}};

} // namespace

const FlowIntegrator *flow_integrator(int number) {
    switch (number) {
    case 0:
        return &luescher;
    case 1:
        return &carpenter_kennedy;
    case 2:
        return &berland_bogey_bailly;
    case 3:
        return &commutator_free;
    case 10:
        return &rkmk3;
    case 11:
        return &rkmk4;
    case 12:
        return &rkmk5;
    case 13:
        return &rkmk8;
    case 20:
    case 22:
        return &adaptive_luescher;
    case 21:
        return &bogacki_shampine;
    default:
        return nullptr;
    }
}

double FlowIntegrator::amplification(double z) const {
    double a = 1;
    if (low_storage()) {
        double k = 0;
        for (int stage = 0; stage < stages(); ++stage)
            k = a + keep[stage] * k, a -= factor[stage] * z * k;
        return a;
    }
    std::vector<double> k;
    const auto moved = [&](const std::vector<double> &by) {
        double to = 1;
        for (size_t j = 0; j < by.size(); ++j)
            to -= z * by[j] * k[j];
        return to;
    };
    for (const auto &row : table)
        k.push_back(moved(row));
    return moved(weights);
}

double longest_stable_step(const FlowMethod &method) {
    double z = 0;
    while (std::abs(method.integrator->amplification(z + 1e-3)) <= 1 + 1e-9)
        z += 1e-3;
    return z / (4 * (3 + method.anisotropy * method.anisotropy) * (method.symanzik ? 5.0 / 3 : 1));
}

double flow_action(const FlowMethod &method, const FlowObservables &o) {
    const double of_time = method.anisotropy * method.anisotropy;
    const double plaquettes = 3 - o.plaquette_s + of_time * (3 - o.plaquette_t),
                 rectangles = 3 - o.rectangle_s + of_time * (3 - o.rectangle_t);
    return 3 * (method.symanzik ? 5.0 / 3 * plaquettes - rectangles / 6 : plaquettes);
}

GradientFlow::GradientFlow(Device &device, const Geometry &geometry, Halo *halo, const LinkField &start,
                           const FlowMethod &method)
    : device_(device), geometry_(geometry), method_(method), around_(device, geometry, halo, start.precision()),
      start_(&start), now_(&start), asked_(device) {
    const FlowIntegrator &how = *method_.integrator;
    const bool low = how.low_storage();
    const int kept = low ? (how.adaptive() ? how.stages() - 1 : 1) : how.stages() + how.last_is_first();
    queue_of(device_).collective("memory for a flow", [&] {
        fields_.clear(), k_.clear();
        for (int field = 0; field < (low && how.adaptive() ? 3 : 2); ++field)
            fields_.push_back(around_.allocate_on_box("links of a flow"));
        for (int k = 0; k < kept; ++k)
            k_.push_back(momenta(device_, start.precision(), geometry_.without_ghosts()));
        if (by_gauge_force()) {
            z_ = momenta(device_, start.precision(), geometry_.without_ghosts());
            space_ = std::make_unique<GaugeForceSpace>(device_, around_.box(), start.precision(), symanzik_loops);
            z_.keep_sum();
        }
        for (LinkField &field : fields_)
            field.clear_behind(geometry_), field.keep_sum();
        for (LinkField &k : k_)
            if (takes_fields())
                k.keep_sum();
    });
}

Derivative GradientFlow::derivative_at(const LinkField &links, bool last_use) {
    const bool symanzik = method_.symanzik;
    const LinkField &u = around_.of(links, symanzik ? symanzik_loops.reach() : staples_reach);
    if (by_gauge_force())
        symanzik_derivative(device_, around_.box(), u, method_.signs, *space_, z_);
    flops_ += by_gauge_force() ? gauge_force_flops(symanzik_loops)
                               : 4 * 216 + (symanzik ? symanzik_staples_flops : staples_flops);
    return {around_.box(),
            u,
            method_.signs,
            StapleWeights::flow(method_.anisotropy),
            symanzik,
            by_gauge_force() ? &z_ : nullptr,
            last_use && is_whole()};
}

SumOfStages GradientFlow::stages(const std::vector<double> &weights, double times) const {
    SumOfStages sum;
    for (size_t j = 0; j < weights.size(); ++j) {
        sum.k.push_back(&k_[j]);
        sum.weights.push_back(times * weights[j]);
    }
    return sum;
}

double GradientFlow::distance(const SumOfStages &lower) {
    flops_ += sum_of_stages_flops(static_cast<int>(lower.k.size())) + exp_flops(method_.exp_order);
    return largest_distance(device_, geometry_, *now_, lower, method_.exp_order, *tried_);
}

double GradientFlow::low_storage_step(double eps) {
    const FlowIntegrator &how = *method_.integrator;
    const LinkField *from = now_;
    for (int stage = 0; stage < how.stages(); ++stage) {
        LinkField *to = nullptr;
        for (LinkField &field : fields_)
            if (&field != from && !(how.adaptive() && &field == now_))
                to = &field;
        const bool last = stage + 1 == how.stages();
        const LinkField *before = &k_[how.adaptive() ? std::max(0, stage - 1) : 0],
                        *next = last ? nullptr : &k_[how.adaptive() ? stage : 0];
        if (!takes_fields())
            to->keep_sum(); // starts a new checksum
        const bool last_use = from != start_ && !(how.adaptive() && from == now_);
        low_storage_stage(device_, derivative_at(*from, last_use), how.keep[stage], before, next,
                          -how.factor[stage] * eps, method_.exp_order, *to);
        flops_ += exp_flops(method_.exp_order);
        if (how.adaptive() && last_use)
            test_stage(*from);
        from = to;
    }
    tried_ = from;
    if (!how.adaptive())
        return 0;
    // sum of lower_i Z_i, Z_i = K_i - keep_i K_(i-1); the last stage does not contribute
    std::vector<double> of_k;
    for (int stage = 0; stage + 1 < how.stages(); ++stage)
        of_k.push_back(how.lower[stage] - how.keep[stage + 1] * how.lower[stage + 1]);
    return distance(stages(of_k, -eps));
}

double GradientFlow::munthe_kaas_step(double eps) {
    const FlowIntegrator &how = *method_.integrator;
    LinkField &to = now_ == &fields_[0] ? fields_[1] : fields_[0];
    const int count = how.stages(), nested = how.one_commutator ? 1 : how.order;
    const auto move = [&](const SumOfStages &sum, double commutator) {
        to.keep_sum(); // starts a new checksum
        move_links(device_, geometry_, *now_, sum, commutator, method_.exp_order, to);
        flops_ += sum_of_stages_flops(static_cast<int>(sum.k.size())) + exp_flops(method_.exp_order);
    };
    if (!first_known_)
        stage_derivative(device_, derivative_at(*now_), {}, 1, k_[0]);
    first_known_ = true; // also when this step is repeated
    for (int stage = 1; stage < count; ++stage) {
        const SumOfStages so_far = stages(how.table[stage], -eps);
        move(so_far, 0);
        stage_derivative(device_, derivative_at(to, true), so_far, nested, k_[stage]);
        test_stage(to);
    }
    move(stages(how.weights, -eps), how.one_commutator ? -eps / 6 : 0);
    tried_ = &to;
    if (!how.adaptive())
        return 0;
    stage_derivative(device_, derivative_at(to), {}, 1, k_[count]);
    return distance(stages(how.lower, -eps));
}

void GradientFlow::test_stage(const LinkField &links) {
    if (is_whole())
        asked_.used_up(links, "links of a flow");
}

double GradientFlow::try_step(double eps) {
    // The last step was rejected. A bit flip in its result may be the reason, so its checksum is tested before the
    // result is overwritten.
    if (tried_ != nullptr && tried_ != now_ && !takes_fields())
        asked_.unchanged(*tried_, "links of a flow");
    return method_.integrator->low_storage() ? low_storage_step(eps) : munthe_kaas_step(eps);
}

void GradientFlow::accept() {
    if (!takes_fields()) {
        asked_.unchanged(*now_, "links of a flow");
        asked_.must_hold();
    }
    now_ = tried_;
    first_known_ = method_.integrator->last_is_first();
    if (first_known_)
        std::swap(k_.front(), k_.back());
}

FlowObservables GradientFlow::observables() {
    flops_ += flow_observables_flops;
    return flow_observables(device_, around_.box(), around_.of(*now_, flow_observables_reach), method_.signs);
}

LinkField GradientFlow::take() {
    if (takes_fields()) {
        for (const LinkField &field : fields_)
            if (&field != now_)
                asked_.used_up(field, "links of a flow");
        asked_.used_up(k_[0], "derivatives of a flow");
    }
    if (by_gauge_force())
        asked_.used_up(z_, "derivatives of a flow");
    asked_.must_hold();
    for (LinkField &field : fields_)
        if (&field == now_)
            return std::move(field);
    return {};
}

StapleWeights StapleWeights::flow(double anisotropy) {
    StapleWeights w;
    for (int mu = 0; mu < 4; ++mu)
        for (int nu = 0; nu < 4; ++nu)
            w.of[mu][nu] = nu == mu ? 0 : nu == 3 ? anisotropy * anisotropy : 1;
    return w;
}

StapleWeights StapleWeights::stout(double rho, int directions) {
    StapleWeights w;
    for (int mu = 0; mu < directions; ++mu)
        for (int nu = 0; nu < directions; ++nu)
            w.of[mu][nu] = nu == mu ? 0 : rho;
    return w;
}

void symanzik_derivative(Device &device, const WideBox &box, const LinkField &u, Signs signs,
                         const GaugeForceSpace &space, const LinkField &z) {
    LoopCoefficients loops = symanzik_loops;
    loops.signs = signs;
    queue_of(device).fill_zero(z.block(0, 0), z.bytes());
    gauge_force(device, box, u, loops, -1, z, space);
}

LinkField stout(Device &device, const Geometry &geometry, Halo *halo, const LinkField &u, Signs signs, double rho,
                int directions, int times) {
    WithMargin around(device, geometry, halo, u.precision());
    AskedFields asked(device);
    LinkField fields[2];
    queue_of(device).collective("memory for smeared links", [&] {
        for (int k = 0; k < std::min(times, 2); ++k) {
            fields[k] = around.allocate_on_box("smeared links");
            fields[k].clear_behind(geometry), fields[k].keep_sum();
        }
    });
    const LinkField *from = &u;
    for (int k = 0; k < times; ++k) {
        const LinkField &to = fields[k % 2];
        Derivative z{around.box(), around.of(*from, staples_reach), signs, StapleWeights::stout(rho, directions)};
        z.used_up = k > 0 && halo == nullptr;
        if (halo != nullptr)
            fields[k % 2].keep_sum(); // starts a new checksum
        low_storage_stage(device, z, 0, nullptr, nullptr, -1, 0, to);
        if (k > 0 && halo != nullptr)
            asked.unchanged(*from, "smeared links");
        from = &to;
    }
    if (times > 1 && halo == nullptr)
        asked.used_up(fields[times % 2], "smeared links");
    asked.must_hold();
    return std::move(fields[(times + 1) % 2]);
}

} // namespace milcgpu
