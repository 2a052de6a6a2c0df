/* The action of the program: MILC's names with our own numbers. */
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
/* The originals have no filter: none is to act on the few links of the twin whose V is nearly singular. */
#define HISQ_FORCE_FILTER 1e-30
/* Set by the environment. */
#define UNITARIZATION_METHOD milc_host_umethod()
#define UNITARIZATION_GROUP milc_host_ugroup()
#endif
