/* Over-relaxation and heat bath of MILC's pure gauge program: declarations that its files share. */
typedef struct {
    double a[4]; /* a0 + i a . sigma */
} su2_matrix;

/* hit(z v, z, generator) returns the SU(2) matrix for a link; z v, |v| = 1, is the part of link times staples in an
 * SU(2) subgroup. */
void sweep(int sweeps, su2_matrix (*hit)(su2_matrix v, double z, double_prn *prn));
su2_matrix times_inverse(su2_matrix a, su2_matrix v);
