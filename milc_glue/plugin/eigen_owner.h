// MILC's eigenvectors of -D^2 on the device, for solves to be deflated with: one set, a mirror (mirror.h) of all its
// fields. MILC says who writes them; nobody looks, because fields that are not filled have no pages yet.
#pragma once
#include "milc_glue/api/milcgpu_eigen.h"
#include "milc_glue/plugin/collective.h"
#include "milc_glue/plugin/mirror.h"
#include <string>
#include <vector>

namespace milcgpu {

class EigenOwner {
  public:
    // real: of MILC's fields.
    EigenOwner(Collective &collective, int real) : collective_(collective), real_(real) {}
    ~EigenOwner() { drop(); }
    EigenOwner(const EigenOwner &) = delete;
    EigenOwner &operator=(const EigenOwner &) = delete;

    // The device has these vectors, on this parity. All ranks call it.
    bool has(void *const *fields, int count, int parity) const;
    // The device alone has the newest.
    bool newest_on_device() const { return mirror_.is(Mirror::Newest::device); }
    int count() const { return static_cast<int>(fields_.size()); }
    int parity() const { return parity_; }
    bool is_at(void *const *fields) const { return !fields_.empty() && fields_[0] == fields[0]; }
    milcgpu_status compute(milcgpu_links *links, const milcgpu_eigen_spec &spec, void *const *fields,
                           milcgpu_eigen_report &report);
    milcgpu_status load(milcgpu_links *links, void *const *fields, int count, int parity);
    // The same of the other parity, made of these where there are none yet.
    milcgpu_status make_other(milcgpu_links *links);
    // MILC's fields have what the device has. Returns why that is lost; empty: it is not.
    std::string to_host();
    void drop(); // what the device has, the newest or not
    // To deflate a solve on this parity with; nullptr: none.
    milcgpu_eigenvectors *handle(int parity) const;
    milcgpu_eigenvectors *handle() const { return handle_; }

  private:
    void now_at(void *const *fields, int count, int parity);
    Collective &collective_;
    int real_, parity_ = 0;
    milcgpu_eigenvectors *handle_ = nullptr, *other_ = nullptr; // other_: of the other parity
    Mirror mirror_;
    std::vector<void *> fields_;
};

} // namespace milcgpu
