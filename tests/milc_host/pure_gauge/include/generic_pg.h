/* The routines of MILC's generic_pg that the glue uses. */
#ifndef GENERIC_PG_H
#define GENERIC_PG_H

int update(void);
void update_u(Real eps);
void update_h(Real eps);
double d_action(void);
void relax(int sweeps), monte(int sweeps);
void gauge_field_copy(field_offset src, field_offset dest);

#endif
