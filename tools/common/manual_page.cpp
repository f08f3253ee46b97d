// SPDX-License-Identifier: Apache-2.0
// Manual pages in the macros of man(7).
#include <string>

#include "tools/common/option_table.h"

namespace neuron::tools {
namespace {

// Escapes text so that roff shows it unchanged.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += "\\&";
      out += c;
    } else {
      out += c;
    }
  }
  return out;
}

// One line of prose, `bold` between backquotes.
std::string line_of(std::string_view text) {
  std::string out;
  bool bold = false;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != '`') continue;
    out += escaped(text.substr(begin, i - begin));
    if (i < text.size()) {
      bold = !bold;
      out += bold ? "\\fB" : "\\fR";
    }
    begin = i + 1;
  }
  // A font change in front of a control character hides it from roff already.
  return out;
}

std::string_view next_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::string prose(std::string_view text) {
  std::string out;
  bool verbatim = false, begun = false;
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    const bool indented = line.starts_with("  ");
    if (verbatim && !indented) {
      out += ".fi\n.RE\n";
      verbatim = false;
      begun = false;
    }
    if (line.empty()) {
      begun = false;
      continue;
    }
    if (indented) {
      if (!verbatim) out += ".PP\n.nf\n.RS\n";
      verbatim = true;
      const std::string shown = escaped(line.substr(2));
      out += shown + "\n";
      continue;
    }
    if (!begun) {
      begun = true;
      const size_t term = line.find(" :: ");
      if (term != std::string_view::npos) {
        out += ".TP\n\\fB" + line_of(line.substr(0, term)) + "\\fR\n" +
               line_of(line.substr(term + 4)) + "\n";
        continue;
      }
      if (!out.empty()) out += ".PP\n";
    }
    out += line_of(line) + "\n";
  }
  if (verbatim) out += ".fi\n.RE\n";
  return out;
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

std::string value_of(const OptionEntry& option) {
  if (option.value.empty()) return {};
  return " \\fI" + escaped(option.choices.empty() ? option.value : joined(option.choices, "|")) +
         "\\fR";
}

std::string options_of(const CommandEntry& command) {
  std::string out;
  for (const OptionEntry& option : command.options) {
    out += ".TP\n";
    if (option.positional.empty()) {
      out += "\\fB" + escaped(joined(option.names, ", ")) + "\\fR" + value_of(option) + "\n";
    } else {
      out +=
          "\\fI" + escaped(option.positional) + "\\fR" + (option.repeatable ? " ..." : "") + "\n";
    }
    std::string text = option.description;
    if (!option.standard.empty()) {
      text += (text.empty() ? "default: " : "; default: ") + option.standard;
    }
    out += line_of(text) + "\n";
  }
  return out;
}

std::string arguments_of(const CommandEntry& command) {
  std::string out;
  for (const OptionEntry& option : command.options) {
    if (option.positional.empty()) continue;
    const std::string name =
        "\\fI" + escaped(option.positional) + "\\fR" + (option.repeatable ? " ..." : "");
    out += option.required ? " " + name : " [" + name + "]";
  }
  return out;
}

bool has_options(const CommandEntry& command) {
  for (const OptionEntry& option : command.options) {
    if (option.positional.empty()) return true;
  }
  return false;
}

// Writes a line for the program itself or, if it has commands, one for each command.
void synopsis(const CommandEntry& command, const std::string& before, std::string& out) {
  const std::string path = before.empty() ? command.name : before + " " + command.name;
  for (const CommandEntry& below : command.commands) synopsis(below, path, out);
  if (!command.commands.empty()) return;
  if (!out.empty()) out += ".br\n";
  out += "\\fB" + escaped(path) + "\\fR" + (has_options(command) ? " [\\fIOPTIONS\\fR]" : "") +
         arguments_of(command) + "\n";
}

void commands_of(const CommandEntry& command, const std::string& before, std::string& out) {
  for (const CommandEntry& below : command.commands) {
    const std::string path = before.empty() ? below.name : before + " " + below.name;
    if (below.commands.empty() || !below.description.empty()) {
      out +=
          ".SS \"" + escaped(path) + "\"\n" + line_of(below.description) + "\n" + options_of(below);
    }
    commands_of(below, path, out);
  }
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

}  // namespace

std::string manual_page(const CommandEntry& program, const Manual& manual) {
  std::string page = ".\\\" SPDX-License-Identifier: Apache-2.0\n";
  page += ".TH " + escaped(upper(manual.name)) + " 1 \"\" \"open Neuron runtime " +
          NEURON_PROJECT_VERSION + "\" \"User Commands\"\n";
  page += ".SH NAME\n" + escaped(manual.name) + " \\- " + escaped(manual.summary) + "\n";
  std::string lines;
  synopsis(program, "", lines);
  page += ".SH SYNOPSIS\n" + lines;
  page += ".SH DESCRIPTION\n" + prose(manual.description);
  page += ".SH OPTIONS\n" + options_of(program);
  std::string commands;
  commands_of(program, "", commands);
  if (!commands.empty()) page += ".SH COMMANDS\n" + commands;
  for (const ManualSection& section : manual.sections) {
    page += ".SH \"" + escaped(section.title) + "\"\n" + prose(section.text);
  }
  if (!manual.environment.empty()) page += ".SH ENVIRONMENT\n";
  for (const ManualTerm& term : manual.environment) {
    page += ".TP\n\\fB" + escaped(term.name) + "\\fR\n" + line_of(term.meaning) + "\n";
  }
  if (!manual.exit_statuses.empty()) page += ".SH \"EXIT STATUS\"\n";
  for (const ExitStatus& status : manual.exit_statuses) {
    page += ".TP\n\\fB" + std::to_string(status.status) + "\\fR\n" + line_of(status.meaning) + "\n";
  }
  if (!manual.examples.empty()) page += ".SH EXAMPLES\n";
  for (const ManualTerm& example : manual.examples) {
    page += ".TP\n\\fB" + escaped(example.name) + "\\fR\n" + line_of(example.meaning) + "\n";
  }
  if (!manual.see_also.empty()) {
    page += ".SH \"SEE ALSO\"\n";
    for (size_t i = 0; i < manual.see_also.size(); ++i) {
      page += escaped(manual.see_also[i]) + (i + 1 < manual.see_also.size() ? ",\n" : "\n");
    }
  }
  return page;
}

}  // namespace neuron::tools
