// SPDX-License-Identifier: Apache-2.0
// Completions for bash, zsh and fish. Each knows the options of every command, the values that are
// known, and where a file name belongs.
#include <string>

#include "tools/common/option_table.h"

namespace neuron::tools {
namespace {

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

// The name of a shell function: _neuron_ls, _neuron_emulatorctl_link_up.
std::string function_name(const std::string& path) {
  std::string out = "_";
  for (const char c : path) out += c == '-' || c == ' ' ? '_' : c;
  return out;
}

// Quotes text between single quotes for a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// A program with its commands, each with the names that lead to it.
struct CompletedPlace {
  const CommandEntry* command;
  std::string path;  // " link up"; of the program itself: empty
};

void list(const CommandEntry& command, const std::string& path, std::vector<CompletedPlace>& out) {
  out.push_back({&command, path});
  for (const CommandEntry& below : command.commands) list(below, path + " " + below.name, out);
}

std::string bash_values(const OptionEntry& option) {
  if (!option.choices.empty()) {
    return "COMPREPLY=($(compgen -W " + quoted(joined(option.choices)) + " -- \"$current\"))";
  }
  if (option.is_path) return "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$current\"))";
  return "COMPREPLY=()";
}

std::string bash_place(const CompletedPlace& place) {
  std::string values;
  std::vector<std::string> words;
  const OptionEntry* positional = nullptr;
  for (const OptionEntry& option : place.command->options) {
    if (!option.positional.empty()) {
      if (positional == nullptr) positional = &option;
      continue;
    }
    words.insert(words.end(), option.names.begin(), option.names.end());
    if (option.value.empty()) continue;
    values += "        " + joined(option.names, "|") + ") " + bash_values(option) + "; return ;;\n";
  }
  for (const CommandEntry& below : place.command->commands) words.push_back(below.name);
  std::string text = "    " + quoted(place.path) + ")\n";
  if (!values.empty()) text += "      case \"$previous\" in\n" + values + "      esac\n";
  if (positional != nullptr && (positional->is_path || !positional->choices.empty())) {
    text += "      if [[ $current != -* ]]; then " + bash_values(*positional) + "; return; fi\n";
  }
  return text + "      COMPREPLY=($(compgen -W " + quoted(joined(words)) +
         " -- \"$current\"))\n      ;;\n";
}

// Escapes text for _arguments of zsh, where a colon and brackets have a meaning.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_values(const OptionEntry& option, const std::string& name) {
  std::string action;
  if (!option.choices.empty()) {
    action = "(" + joined(option.choices) + ")";
  } else if (option.is_path) {
    action = "_files";
  }
  return ":" + zsh_text(name) + ":" + action;
}

std::string zsh_arguments(const CommandEntry& command) {
  std::string text;
  unsigned place = 0;
  for (const OptionEntry& option : command.options) {
    if (!option.positional.empty()) {
      ++place;
      text += " \\\n    " + quoted((option.repeatable ? "*" : std::to_string(place)) +
                                   zsh_values(option, option.positional));
      continue;
    }
    const std::string value = option.value.empty() ? "" : zsh_values(option, option.value);
    for (const std::string& name : option.names) {
      const std::string others =
          option.names.size() > 1 && !option.repeatable ? "(" + joined(option.names) + ")" : "";
      text += " \\\n    " + quoted(others + (option.repeatable ? "*" : "") + name + "[" +
                                   zsh_text(option.description) + "]" + value);
    }
  }
  return text;
}

void zsh_function(const CommandEntry& command, const std::string& path, std::string& out) {
  for (const CommandEntry& below : command.commands) {
    zsh_function(below, path + " " + below.name, out);
  }
  out += function_name(path) + "() {\n";
  if (command.commands.empty()) {
    out += "  _arguments" + zsh_arguments(command) + "\n}\n";
    return;
  }
  out += "  local state line\n  _arguments -C" + zsh_arguments(command) +
         " \\\n    '1: :->command' '*:: :->argument'\n  case $state in\n    command)\n"
         "      local -a commands=(";
  for (const CommandEntry& below : command.commands) {
    out += " " + quoted(below.name + ":" + below.description);
  }
  out += " )\n      _describe command commands ;;\n    argument)\n      case $line[1] in\n";
  for (const CommandEntry& below : command.commands) {
    out += "        " + below.name + ") " + function_name(path + " " + below.name) + " ;;\n";
  }
  out += "      esac ;;\n  esac\n}\n";
}

// The condition under which a line of a fish completion applies.
std::string fish_condition(const CompletedPlace& place) {
  std::string test;
  size_t begin = 0;
  while (begin < place.path.size()) {
    size_t end = place.path.find(' ', begin + 1);
    if (end == std::string::npos) end = place.path.size();
    test += std::string(test.empty() ? "" : "; and ") + "__fish_seen_subcommand_from " +
            place.path.substr(begin + 1, end - begin - 1);
    begin = end;
  }
  if (!place.command->commands.empty()) {
    std::vector<std::string> names;
    for (const CommandEntry& below : place.command->commands) names.push_back(below.name);
    test += std::string(test.empty() ? "" : "; and ") + "not __fish_seen_subcommand_from " +
            joined(names);
  }
  return test.empty() ? "" : " -n " + quoted(test);
}

}  // namespace

std::string bash_completion(const CommandEntry& program) {
  std::vector<CompletedPlace> places;
  list(program, "", places);
  const std::string function = function_name(program.name);
  std::string text = "# SPDX-License-Identifier: Apache-2.0\n" + function +
                     "() {\n  local current=\"${COMP_WORDS[COMP_CWORD]}\""
                     " previous=\"${COMP_WORDS[COMP_CWORD-1]}\" path='' word\n"
                     "  COMPREPLY=()\n";
  if (places.size() > 1) {
    text +=
        "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    case \"$path $word\" in\n"
        "      ";
    std::string paths;
    for (const CompletedPlace& place : places) {
      if (!place.path.empty()) paths += (paths.empty() ? "" : "|") + quoted(place.path);
    }
    text += paths + ") path=\"$path $word\" ;;\n    esac\n  done\n";
  }
  text += "  case \"$path\" in\n";
  for (const CompletedPlace& place : places) text += bash_place(place);
  return text + "  esac\n}\ncomplete -F " + function + " " + program.name + "\n";
}

std::string zsh_completion(const CommandEntry& program) {
  std::string text = "#compdef " + program.name + "\n# SPDX-License-Identifier: Apache-2.0\n";
  zsh_function(program, program.name, text);
  return text + function_name(program.name) + " \"$@\"\n";
}

std::string fish_completion(const CommandEntry& program) {
  std::vector<CompletedPlace> places;
  list(program, "", places);
  std::string text = "# SPDX-License-Identifier: Apache-2.0\n";
  const std::string begin = "complete -c " + program.name;
  for (const CompletedPlace& place : places) {
    const std::string condition = fish_condition(place);
    bool takes_files = false;
    for (const OptionEntry& option : place.command->options) {
      if (!option.positional.empty()) {
        takes_files = takes_files || option.is_path;
        continue;
      }
      text += begin + condition;
      for (const std::string& name : option.names) {
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (!option.choices.empty()) {
        text += " -x -a " + quoted(joined(option.choices));
      } else if (option.is_path) {
        text += " -r -F";
      } else if (!option.value.empty()) {
        text += " -x";
      }
      text += " -d " + quoted(option.description) + "\n";
    }
    if (!takes_files) text += begin + condition + " -f\n";
    for (const CommandEntry& below : place.command->commands) {
      text +=
          begin + condition + " -f -a " + below.name + " -d " + quoted(below.description) + "\n";
    }
  }
  return text;
}

}  // namespace neuron::tools
