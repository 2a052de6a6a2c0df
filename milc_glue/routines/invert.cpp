// M x = b from the host's field to the host's field: the device does what MILC does around its solves of M^dag M.
#include "milc_glue/routines/entry.h"
#include "milc_glue/routines/report_for_milc.h"
#include "milc_glue/routines/solve.h"
#include <vector>

using namespace milcgpu;

namespace {

constexpr int both = MILCGPU_EVEN + MILCGPU_ODD;

// to = scale (a x - D y)
struct MinusDslash {
    int parity;
    double scale, a;
    milcgpu_vector x, y, to;
};
milcgpu_status minus_dslash(const Plugin &p, RoutineAccount &account, const LinkSet *links, const MinusDslash &of) {
    constexpr double dslash_flops = 1146, difference_flops = 18; // for each site
    account.flops += (dslash_flops + difference_flops) * p.sites_of(of.parity);
    return milcgpu_vectors_minus_dslash(links->handle, of.parity, of.scale, of.a, of.x, of.y, of.to);
}

// The vectors of n sources on the device, and the steps of the inversion.
class Inversion {
  public:
    Inversion(Plugin &p, RoutineAccount &account, const milcgpu_plugin_invert_call &call)
        : p_(p), account_(account), call_(call), sources_(call.n), normals_(call.n), solutions_(call.n) {}

    Outcome run(milcgpu_solve_report *even, milcgpu_solve_report *odd) {
        // The first solve looks at the rest.
        const LinkSet *links =
            p_.links_for(call_.solve.routine, call_.solve.fat, call_.solve.lng, Mirror::Look::sample);
        if (links == nullptr)
            return Outcome::failed;
        made_of_ = links->content();
        milcgpu_status status = load();
        if (call_.adjoint_last == 0)
            status = adjoint(status, links, sources_, normals_);
        else
            status = empty(status, links);
        if (status != MILCGPU_OK)
            return failed(status);
        Outcome outcome = solve(MILCGPU_EVEN, even);
        if (outcome != Outcome::done)
            return outcome;
        outcome = look_again(links);
        if (outcome != Outcome::done)
            return outcome;
        if (call_.odd_from_even != 0)
            status = each(status, [&](int k) {
                return minus_dslash(p_, account_, links,
                                    {MILCGPU_ODD, 0.5 / call_.solve.mass, 1, source(k), solution(k), solution(k)});
            });
        if (status != MILCGPU_OK)
            return failed(status);
        outcome = solve(MILCGPU_ODD, odd);
        if (outcome != Outcome::done)
            return outcome;
        if (call_.adjoint_last != 0) {
            outcome = look_again(links);
            if (outcome != Outcome::done)
                return outcome;
            status = adjoint(status, links, solutions_, normals_);
        }
        if (status != MILCGPU_OK)
            return failed(status);
        status = save_all();
        return status == MILCGPU_OK ? Outcome::done : failed(status);
    }

  private:
    using Fields = std::vector<VectorStore::Vectors>;
    // After a solve: finds the links again; from_start if they are not those that the rest was made of.
    Outcome look_again(const LinkSet *&links) {
        const auto head =
            p_.links_at_head(call_.solve.routine, call_.solve.fat, call_.solve.lng, Mirror::Look::sample, &made_of_);
        links = head.set;
        return links == nullptr ? Outcome::failed : head.same_content ? Outcome::done : Outcome::from_start;
    }
    // to = M^dag from
    milcgpu_status adjoint(milcgpu_status status, const LinkSet *links, const Fields &from, const Fields &to) {
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
            status = each(status, [&](int k) {
                const milcgpu_vector x = from[k]->vector();
                return minus_dslash(p_, account_, links, {parity, 1, 2 * call_.solve.mass, x, x, to[k]->vector()});
            });
        return status;
    }
    // Sets solutions to 0 if no guess is loaded.
    milcgpu_status empty(milcgpu_status status, const LinkSet *links) {
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
            status = each(status, [&](int k) {
                return minus_dslash(p_, account_, links, {parity, 0, 0, source(k), source(k), solution(k)});
            });
        return status;
    }
    milcgpu_vector source(int k) const { return sources_[k]->vector(); }
    milcgpu_vector normal(int k) const {
        return normals_[k]->vector();
    } // M^dag of the source; at the end, of the solution
    milcgpu_vector solution(int k) const { return solutions_[k]->vector(); }

    // work(k) for each source, until one fails on any rank.
    template <class Work> milcgpu_status each(milcgpu_status status, const Work &work) {
        for (int k = 0; k < call_.n && status == MILCGPU_OK; ++k)
            status = p_.with_idle_given_back([&] { return work(k); });
        return status;
    }

    // Guesses that are not used are not copied.
    milcgpu_status load() {
        return each(MILCGPU_OK, [&](int k) {
            milcgpu_status status = p_.vectors.with_content(call_.sources[k].data, sources_[k], account_.to_device);
            for (auto *made : {&normals_[k], &solutions_[k]})
                if (status == MILCGPU_OK)
                    status = p_.vectors.empty(*made);
            const int guess = call_.adjoint_last != 0 ? 0 : call_.odd_from_even != 0 ? MILCGPU_EVEN : both;
            for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
                if (status == MILCGPU_OK && (guess & parity) != 0)
                    status = load(solution(k), parity, call_.solutions[k]);
            return status;
        });
    }
    milcgpu_status load(milcgpu_vector to, int parity, const milcgpu_field &from) {
        account_.to_device += p_.sites_of(parity) * p_.bytes_of(6);
        return milcgpu_vectors_load(to.of, to.index, parity, &from);
    }

    milcgpu_status save_all() {
        return each(MILCGPU_OK, [&](int k) {
            return p_.vectors.deliver((call_.adjoint_last != 0 ? normals_ : solutions_)[k], call_.solutions[k],
                                      account_.to_host);
        });
    }

    Outcome solve(int parity, milcgpu_solve_report *reports) {
        milcgpu_plugin_solve_call call = call_.solve;
        call.parity = parity;
        SourcesOnDevice on_device{{}, {}, MILCGPU_TOGETHER_AUTO, made_of_};
        for (int k = 0; k < call_.n; ++k) {
            on_device.sources.push_back(call_.adjoint_last != 0 ? source(k) : normal(k));
            on_device.solutions.push_back(solution(k));
            reports[k] = {}, reports[k].struct_size = sizeof *reports;
        }
        const Outcome outcome = solve_until_done(p_, account_, call_.n, &call, reports, &on_device);
        if (outcome == Outcome::from_start) // a bit may have flipped in a source
            p_.vectors.drop_copies();
        return outcome == Outcome::out_of_memory ? failed(MILCGPU_NO_MEMORY) : outcome;
    }

    // After a failed step, or if memory is short for all of it: MILC's routine then calls the solver with less on the
    // device at a time.
    Outcome failed(milcgpu_status status) {
        const char *const name = p_.name_of(call_.solve.routine);
        if (status == MILCGPU_CORRUPTED) {
            p_.log(0, format("%s: %s. It begins again", name, p_.reason().c_str()));
            ++account_.reloaded;
            p_.vectors.drop_copies();
            return Outcome::from_start;
        }
        if (status == MILCGPU_NO_MEMORY)
            p_.log(1, format("%s: %s. Its steps are done one by one, with fields on the host between them", name,
                             p_.reason().c_str()));
        else
            p_.report_failure(call_.solve.routine, status);
        return Outcome::failed;
    }

    Plugin &p_;
    RoutineAccount &account_;
    const milcgpu_plugin_invert_call &call_;
    Fields sources_, normals_, solutions_;
    uint64_t made_of_ = 0; // content of links
};

} // namespace

extern "C" {

int milcgpu_plugin_invert(const milcgpu_plugin_invert_call *call, milcgpu_solve_report *given_even,
                          milcgpu_solve_report *given_odd) {
    return offloaded(call->solve.routine, [&](Plugin &p, RoutineAccount &account) -> Done {
        p.running.append(": m %g", call->solve.mass);
        const ReportForMilc<milcgpu_solve_report> even(given_even, call->n), odd(given_odd, call->n);
        if (!(call->solve.tolerance > 0) && !(call->solve.relative_tolerance > 0))
            return left_to_milc; // MILC then does one iteration: nothing to gain
        for (int k = 0; k < call->n; ++k) {
            p.vectors.to_host(call->sources[k].data);
            p.vectors.to_host(call->solutions[k].data);
        }
        constexpr int most_starts = 3; // links may be edited once, and a bit may flip once
        for (int start = 0; start < most_starts; ++start) {
            const Outcome outcome = Inversion(p, account, *call).run(even, odd);
            if (outcome != Outcome::from_start)
                return outcome == Outcome::done ? Done(MILCGPU_OK, call->n) : left_to_milc;
        }
        p.log(0,
              format("%s: begun %d times, and data on the device have changed each time. Memory of this device seems "
                     "to be failing",
                     p.name_of(call->solve.routine), most_starts));
        return left_to_milc;
    });
}

int milcgpu_plugin_adjoint(const void *fat, const void *lng, double mass, milcgpu_field x) {
    return offloaded(MILCGPU_MAT_INVERT, [&](Plugin &p, RoutineAccount &account) -> Done {
        p.running.append(": m %g", mass);
        const int number = p.vectors.held(&x, 1, both);
        const auto head = p.links_at_head(MILCGPU_MAT_INVERT, fat, lng, Mirror::Look::whole, nullptr, number >= 0);
        const bool resident = head.also;
        if (!resident)
            p.vectors.to_host(x.data);
        const LinkSet *const links = head.set;
        if (links == nullptr)
            return left_to_milc;
        VectorStore::Vectors read, made;
        milcgpu_status status = p.with_idle_given_back([&] {
            const milcgpu_status had = resident ? MILCGPU_OK : p.vectors.with_content(x.data, read, account.to_device);
            return had == MILCGPU_OK ? p.vectors.empty(made) : had;
        });
        const milcgpu_vector from = resident               ? milcgpu_vector{p.vectors.deferred(), number}
                                    : status == MILCGPU_OK ? read->vector()
                                                           : milcgpu_vector{};
        for (const int parity : {MILCGPU_EVEN, MILCGPU_ODD})
            if (status == MILCGPU_OK)
                status =
                    p.collective(minus_dslash(p, account, links, {parity, 1, 2 * mass, from, from, made->vector()}));
        if (status == MILCGPU_OK)
            status = p.collective(p.vectors.deliver(made, x, account.to_host));
        if (status == MILCGPU_CORRUPTED)
            p.vectors.drop_copies();
        else if (status == MILCGPU_OK && resident)
            p.vectors.holds_no_more(x, both);
        return status;
    });
}

} // extern "C"
