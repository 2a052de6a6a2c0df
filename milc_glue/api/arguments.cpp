// Checks of members of structs and of numbers of calls.
#include "milc_glue/api/arguments.h"
#include <cstring>

using namespace milcgpu;

std::string Name::text() const {
    std::string all;
    for (int k = 0; k <= last; ++k)
        all += (k > 0 ? "." : "") + std::string(parts[k]) + (index[k] < 0 ? "" : format("[%d]", index[k]));
    return all + (pointer ? " != NULL" : "");
}

std::string May::text() const {
    const bool no_limit = most >= DBL_MAX;
    const std::string range = words != nullptr    ? words
                              : !no_limit         ? format("%.10g to %.10g", least, most)
                              : least == -DBL_MAX ? "finite"
                                                  : format("at least %.10g", least);
    return range + (zero_is != 0 ? format(", or 0 for %.10g", zero_is) : "");
}

double CallArguments::number(const Name &name, double x, const May &may, Numbers &to) {
    if (x == 0)
        x = may.zero_is;
    if (!may.holds(x))
        refuse(format("%s is %.10g: must be %s%s", name.text().c_str(), std::isnan(x) ? NAN : x, // no sign
                      std::isinf(x) && may.text().find("finite") != 0 ? "finite, " : "", may.text().c_str()));
    to.push_back({name, x});
    return x;
}

void CallArguments::walk(const Table &table, void *at, const Name &of, Numbers &to) {
    for (const Member &m : table) {
        unsigned char *const here = static_cast<unsigned char *>(at) + m.offset;
        Name name = of;
        if (m.name != nullptr)
            name.parts[++name.last] = m.name;
        if (m.kind == Member::numbers)
            for (int k = 0; k < m.count; ++k) {
                name.index[name.last] = m.count > 1 ? k : name.index[name.last];
                const double given = m.get(here + k * m.bytes), x = number(name, given, m.may, to);
                if (given != x && &to == &numbers) // entries are the caller's
                    m.set(here + k * m.bytes, x);
            }
        if (m.kind == Member::inside)
            walk(*m.table, here, name, to);
        if (m.kind <= Member::own)
            continue;
        void *pointer;
        int n = m.kind == Member::given;
        std::memcpy(&pointer, here, sizeof pointer);
        if (m.kind == Member::entries || (m.kind == Member::some && pointer != nullptr))
            std::memcpy(&n, static_cast<unsigned char *>(at) + m.how_many, sizeof n);
        if (n > 0)
            given(name.text().c_str(), pointer);
        if (m.table != nullptr)
            walk_entries(*m.table, pointer, n, name);
        name.pointer = true;
        if (m.kind == Member::alike || m.kind == Member::some)
            to.push_back({name, double(pointer != nullptr)});
    }
}

void CallArguments::walk_entries(const Table &table, void *at, int n, Name name) {
    for (int &k = name.index[name.last] = 0; k < n; ++k)
        walk(table, static_cast<unsigned char *>(at) + k * table.bytes, name, of_entries);
}
