#include "tests/reference_page.h"
#include "tests/source_text.h"
#include <algorithm>
#include <stdexcept>

namespace tests {

namespace {

using milcgpu::Member;
using milcgpu::Table;

std::string trimmed(const std::string &text) {
    const size_t first = text.find_first_not_of(" \n"), last = text.find_last_not_of(" \n");
    return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

// The text of a comment, with its marks, in lines of its own.
std::string words_of(const std::string &comment) {
    std::string text;
    size_t at = 0;
    while ((at = comment.find("/*", at)) != std::string::npos) {
        const size_t end = comment.find("*/", at);
        text += comment.substr(at + 2, end - at - 2) + "\n";
        at = end;
    }
    return trimmed(replaced(text, "\n +(?:\\* ?)?", "\n"));
}
// The same in one line of a table.
std::string cell_of(const std::string &comment) {
    return replaced(replaced(replaced(words_of(comment), "\n", " "), "\\|", "\\|"), "<", "&lt;");
}

// A declaration with the comments that belong to it: those before it without an empty line between, and the one that
// begins on its last line.
struct Piece {
    std::string before, declaration, behind;
};

// Behind the semicolon, or behind the body of an inline function.
size_t end_of(const std::string &text, size_t from) {
    const bool is_inline = text.compare(from, 7, "static ") == 0;
    int depth = 0;
    for (size_t at = from; at < text.size(); ++at) {
        if (text.compare(at, 2, "/*") == 0)
            at = text.find("*/", at) + 1;
        depth += text[at] == '(' || text[at] == '{' ? 1 : text[at] == ')' || text[at] == '}' ? -1 : 0;
        if (depth == 0 && (text[at] == ';' || (is_inline && text[at] == '}')))
            return at + 1;
    }
    throw std::runtime_error("no end: " + text.substr(from, 200));
}

std::vector<Piece> pieces_of(const std::string &text) {
    std::vector<Piece> pieces;
    for (size_t at = 0;;) {
        at = text.find_first_not_of(" \n", at);
        if (at == std::string::npos)
            return pieces;
        Piece piece;
        bool stands_alone = false;
        while (!stands_alone && at != std::string::npos && text.compare(at, 2, "/*") == 0) {
            const size_t end = text.find("*/", at) + 2, next = text.find_first_not_of(" \n", end);
            piece.before += text.substr(at, end - at) + "\n";
            stands_alone = next == std::string::npos || text.substr(end, next - end).find("\n\n") != std::string::npos;
            at = next;
        }
        piece.before = trimmed(piece.before);
        if (stands_alone) {
            pieces.push_back(piece);
            continue;
        }
        size_t end = text[at] == '#' ? text.find('\n', at) : end_of(text, at);
        piece.declaration = trimmed(text.substr(at, end - at));
        const size_t next = text.find_first_not_of(' ', end);
        if (text[at] != '#' && next != std::string::npos && text.compare(next, 2, "/*") == 0) {
            end = text.find("*/", next) + 2;
            piece.behind = text.substr(next, end - next);
        }
        pieces.push_back(piece);
        at = end;
    }
}

std::string default_of(const Member &m) { return m.may.start != 0 ? milcgpu::format("%.10g", m.may.start) : "0"; }

std::string default_inside(const Member &m) {
    if (m.may.start != 0)
        return "0, its " + std::string(m.table->begin()->name) + " " + default_of(m);
    for (const Member &inner : *m.table)
        if (inner.may.start != 0)
            return "0, its " + std::string(inner.name) + " " + default_of(inner);
    return "0";
}

// The columns that the table of members has: allowed values, what _defaults sets, and how ranks may differ.
std::string columns_of(const Table *table, const std::string &name, bool is_pointer) {
    if (table != nullptr)
        for (const Member &m : *table)
            if (m.name == name)
                switch (m.kind) {
                case Member::size:
                    return "sizeof the struct | by `size` | may differ";
                case Member::numbers:
                    return (m.may.checked ? replaced(m.may.text(), "\\|", "\\|") : "") + " | " + default_of(m) +
                           " | same";
                case Member::inside:
                    return " | " + default_inside(m) + " | same";
                case Member::own:
                    return std::string(is_pointer ? " | NULL" : " | 0") + " | may differ";
                case Member::given:
                    return "not NULL | NULL | may differ";
                case Member::alike:
                    return " | NULL | NULL on all or on none";
                case Member::entries:
                    return " | NULL | same entries";
                case Member::some:
                    return " | NULL | same entries, or NULL on all";
                }
    return " |  | ";
}

std::string rows_of(const std::string &body, const Table *table) {
    std::string rows = table != nullptr
                           ? "| member | what it is | allowed | default | on ranks |\n|---|---|---|---|---|\n"
                           : "| member | what it is |\n|---|---|\n";
    for (const Piece &member : pieces_of(body)) {
        std::string declaration = replaced(replaced(member.declaration, "/\\*[^/]*\\*/", ""), "[ \n]+", " ");
        declaration.pop_back(); // the semicolon
        const auto named =
            matches(declaration, declaration.find("(*") == std::string::npos ? "([a-z0-9_]+)(?:\\[[0-9]+\\])*(?:,|$)"
                                                                             : "\\(\\*([a-z0-9_]+)\\)");
        std::string columns;
        for (const auto &name : named) {
            const std::string of_this = columns_of(table, name[1], declaration.find('*') != std::string::npos);
            if (&name != &named[0] && of_this != columns)
                throw std::runtime_error(declaration + ": these members differ: declare each in a line of its own");
            columns = of_this;
        }
        rows += "| `" + trimmed(declaration) + "` | " + cell_of(member.before + member.behind) +
                (table != nullptr ? " | " + columns : "") + " |\n";
    }
    return rows;
}

} // namespace

std::string reference_page(const std::map<std::string, const Table *> &tables) {
    std::string page =
        "# The C interface, from its headers\n\n"
        "This page has every function and every struct of the headers in `milc_glue/api/`, which `make install` puts "
        "into\n`include/milcgpu/`. A test makes it from the headers and from the tables of members, and compares "
        "(`make reference`\nwrites it again). [guide.md](guide.md) shows how to use the functions together; "
        "[conventions.md](conventions.md) has\norder of sites, phases and signs; [reference.md](reference.md) has the "
        "statuses, the settings,\nand a line for each function.\n\n"
        "In the tables of members: *allowed* is checked by each call, on all ranks; *default* is what the function\n"
        "`_defaults` of the struct sets; *on ranks* says whether a member must be the same on all ranks. An empty "
        "cell: the call\nchecks the member, as its comment says.\n";
    for (const char *const header : {"milcgpu", "milcgpu_md", "milcgpu_eigen", "milcgpu_mesons", "milcgpu_baryons",
                                     "milcgpu_dirac", "milcgpu_file", "milcgpu_flow", "milcgpu_gauge",
                                     "milcgpu_laplace", "milcgpu_wilson", "milcgpu_mpi", "milcgpu_milc"}) {
        const std::string text = text_of(std::string("milc_glue/api/") + header + ".h");
        const size_t head = text.find("*/") + 2;
        page += "\n## " + std::string(header) + ".h\n\n" + words_of(text.substr(0, head)) + "\n";
        const size_t from = text.find("\n#endif\n", head) + 8, to = text.rfind("\n#ifdef __cplusplus");
        std::string code;
        const auto end_code = [&] {
            page += trimmed(code).empty() ? "" : "\n```c\n" + trimmed(code) + "\n```\n";
            code.clear();
        };
        for (const Piece &piece : pieces_of(text.substr(from, to - from))) {
            if (piece.declaration.rfind("#", 0) == 0 && piece.declaration.rfind("#define ", 0) != 0)
                continue;
            const auto whole = matches(piece.declaration, "^(?:typedef )?struct ?([a-z0-9_]*) \\{");
            if (!whole.empty()) {
                const size_t open = piece.declaration.find('{'), close = piece.declaration.rfind('}');
                std::string name = trimmed(piece.declaration.substr(close + 1));
                name = name.size() > 1 ? name.substr(0, name.size() - 1) : whole[0][1];
                const auto table = tables.find(name);
                end_code();
                page += "\n#### " + name + "\n\n";
                const std::string says = words_of(piece.before + piece.behind);
                page += says.empty() ? "" : says + "\n\n";
                page += rows_of(piece.declaration.substr(open + 1, close - open - 1),
                                table != tables.end() ? table->second : nullptr);
            } else if (piece.declaration.empty()) {
                const std::string says = replaced(words_of(piece.before), "=+\n?", "");
                end_code();
                page += says.rfind("----", 0) == 0 ? "\n### " + replaced(says, "^-+ ", "") + "\n" : "\n" + says + "\n";
            } else {
                const size_t body =
                    piece.declaration.rfind("static inline", 0) == 0 ? piece.declaration.find(" {") : std::string::npos;
                code += (piece.before.empty() ? "" : "\n" + piece.before + "\n") + piece.declaration.substr(0, body) +
                        (body != std::string::npos ? ";" : "") + (piece.behind.empty() ? "" : " " + piece.behind) +
                        "\n";
            }
        }
        end_code();
    }
    return page;
}

} // namespace tests
