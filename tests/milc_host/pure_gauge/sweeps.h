/* Over-relaxation and heat bath, as MILC's pure gauge program has them: what their files call of each other. */
typedef struct {
    double a[4]; /* a0 + i a . sigma */
} su2_matrix;

/* hit(z v, z, generator): what turns a link, z v the part of link times staples that an SU(2) subgroup sees, |v| = 1. */
void sweep(int sweeps, su2_matrix (*hit)(su2_matrix v, double z, double_prn *prn));
su2_matrix times_inverse(su2_matrix a, su2_matrix v);
