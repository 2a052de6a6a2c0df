#ifndef UMETHOD_H
#define UMETHOD_H
enum { UNITARIZE_ROOT = 2, UNITARIZE_RATIONAL = 3, UNITARIZE_ANALYTIC = 5 };
enum { UNITARIZE_U3 = 0, UNITARIZE_SU3 = 1 };
int milc_host_umethod(void), milc_host_ugroup(void);
#endif
