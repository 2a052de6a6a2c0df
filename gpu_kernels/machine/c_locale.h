// Numbers are written and read with a decimal point in every locale.
#pragma once
#include <locale.h>

namespace milcgpu {

// Sets the C locale for this thread during the object's lifetime.
class CLocale {
  public:
    CLocale() : before_(uselocale(c())) {}
    CLocale(const CLocale &) = delete;
    ~CLocale() { uselocale(before_); }

  private:
    static locale_t c() { // never freed: threads may use it until the program ends
        static const locale_t made = newlocale(LC_ALL_MASK, "C", nullptr);
        return made;
    }
    const locale_t before_;
};

} // namespace milcgpu
