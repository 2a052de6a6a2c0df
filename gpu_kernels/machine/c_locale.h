// Numbers are written and read with a point, whatever the program's locale.
#pragma once
#include <locale.h>

namespace milcgpu {

// The C locale, of this thread alone, as long as this lives.
class CLocale {
  public:
    CLocale() : before_(uselocale(c())) {}
    CLocale(const CLocale &) = delete;
    ~CLocale() { uselocale(before_); }

  private:
    static locale_t c() { // never freed: threads may have it until the program ends
        static const locale_t made = newlocale(LC_ALL_MASK, "C", nullptr);
        return made;
    }
    const locale_t before_;
};

} // namespace milcgpu
