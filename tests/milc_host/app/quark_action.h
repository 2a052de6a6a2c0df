/* The action of the program: numbers of our own for MILC's names. */
#ifndef QUARK_ACTION_H
#define QUARK_ACTION_H
#define HISQ 1
#define FN_TYPE 2
#ifdef MILC_HOST_hisq
#define FERM_ACTION HISQ
#else
#define FERM_ACTION FN_TYPE
#endif
#define ASQ_OPTIMIZED_FATTENING
/* As the environment says. */
#define UNITARIZATION_METHOD milc_host_umethod()
#define UNITARIZATION_GROUP milc_host_ugroup()
#endif
