// Quark fields of a call: the host's, or vectors that stay on the device.
#include "gpu_kernels/algebra/blas.h"
#include "milc_glue/api/members.h"
#include "milc_glue/measure/meson_links_handle.h"

using namespace milcgpu;

std::vector<VectorPlace> milcgpu::places_of(CallArguments &call, milcgpu_meson_links &links,
                                            const milcgpu_quarks *quarks, int n, const char *what) {
    require(quarks, what, "the quark fields");
    const bool on_host = quarks->host != nullptr;
    if (on_host == (quarks->device != nullptr))
        refuse(format("%s: one of host and device must be given, the other is NULL", what));
    call.copy_of(what, quarks, [&](milcgpu_quarks &given) { given.first = on_host ? 0 : given.first; });
    std::vector<VectorPlace> places;
    for (int k = 0; k < n; ++k) {
        const std::string one = format("%s[%d]", what, k);
        if (on_host)
            places.emplace_back(host_field(&quarks->host[k], 6, one.c_str()));
        else
            places.emplace_back(links.context, milcgpu_vector{quarks->device, quarks->first + k}, one.c_str());
    }
    return places;
}

Quarks::Quarks(CallArguments &call, milcgpu_meson_links &links, const milcgpu_quarks *from, int n, const char *what,
               bool in_place)
    : links_(links), n_(n) {
    look_at(call, from, what, in_place, "quark fields");
    if (device_ != nullptr) {
        for (const int parity : {0, 1})
            need_filled(*device_, first_, n, parity, what);
        return;
    }
    for (const int parity : {0, 1})
        for (int k = 0; k < n; ++k)
            places_[k].read(*links.context, parity, own_[parity][k]);
    if (!links.fields)
        links.fields.emplace(*links.context);
    for (const SpinorField &field : own_)
        links.fields->loaded(field);
}

Quarks::Quarks(CallArguments &call, milcgpu_meson_links &links, const milcgpu_quarks *to, const Quarks &read,
               const char *what)
    : links_(links), n_(read.n_) {
    look_at(call, to, what, true, "results of a measurement");
    if (device_ == nullptr)
        return;
    if (device_ == read.device_ && first_ < read.first_ + n_ && read.first_ < first_ + n_) {
        own_[0] = allocate(0, "results of a measurement"), own_[1] = allocate(1, "results of a measurement");
        vectors_ = {own_[0], own_[1]};
        return;
    }
    in_place_ = true;
}

SpinorField Quarks::allocate(int parity, const char *owner) const {
    return {links_.device(), links_.precision, links_.geometry(), parity, owner, n_};
}

void Quarks::look_at(CallArguments &call, const milcgpu_quarks *quarks, const char *what, bool written,
                     const char *owner) {
    places_ = places_of(call, links_, quarks, n_, what);
    for (int k = 0; k < n_; ++k)
        if (const Precision real = places_[k].precision(); real != links_.precision)
            refuse(format("%s[%d] is in %s precision, the links are in %s: they must agree", what, k, name(real),
                          name(links_.precision)));
    if (quarks->device != nullptr) {
        device_ = quarks->device, first_ = quarks->first;
        const FullVectors all = {device_->parity[0], device_->parity[1]};
        vectors_ = all.from(first_).first(n_);
        return;
    }
    if (written)
        require_apart(occupied(*links_.context, what, true, places_));
    own_[0] = allocate(0, owner), own_[1] = allocate(1, owner);
    vectors_ = {own_[0], own_[1]};
}

void Quarks::begin() {
    if (in_place_)
        changes();
}

void Quarks::changes() {
    links_.fields.reset();
    if (device_ != nullptr)
        for (const int parity : {0, 1})
            begin_filling(*device_, first_, n_, parity);
}

void Quarks::deliver(const FullVectors &made) {
    Device &device = links_.device();
    const SpinorBlock block[2] = {made.even, made.odd};
    links_.look_at_used();
    changes();
    for (const int parity : {0, 1})
        for (int k = 0; k < n_; ++k)
            require_finite(device, block[parity][k], links_.geometry(), parity, "the result");
    if (device_ == nullptr) {
        device.collective("room to copy quark fields", [&] {
            device.prepare_to_host(places_[0].host()->pitch_bytes * size_t(links_.geometry().most_sites()));
        });
        for (const int parity : {0, 1})
            for (int k = 0; k < n_; ++k)
                places_[k].write(*links_.context, parity, block[parity][k]);
        return;
    }
    for (const int parity : {0, 1})
        for (int k = 0; k < n_; ++k) {
            const SpinorBlock to = device_->parity[parity][first_ + k];
            if (to.data != block[parity][k].data)
                device.copy_on_device(to.data, block[parity][k].data, to.stride * spinor_bytes(to.precision));
        }
    device.collective("the end of a measurement", [&] { // an error belongs to this call
        for (const int parity : {0, 1})
            now_filled(*device_, first_, n_, parity, true);
    });
}
