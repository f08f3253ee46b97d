#compdef neuron-large
# SPDX-License-Identifier: Apache-2.0
_neuron_large_show_all() {
  _arguments \
    '(-h --help)-h[Print this help message and exit]' \
    '(-h --help)--help[Print this help message and exit]'
}
_neuron_large_show_one() {
  _arguments \
    '(-h --help)-h[Print this help message and exit]' \
    '(-h --help)--help[Print this help message and exit]' \
    '1:NAME:'
}
_neuron_large_show() {
  local state line
  _arguments -C \
    '(-h --help)-h[Print this help message and exit]' \
    '(-h --help)--help[Print this help message and exit]' \
    '1: :->command' '*:: :->argument'
  case $state in
    command)
      local -a commands=( 'all:all of them' 'one:one of them' )
      _describe command commands ;;
    argument)
      case $line[1] in
        all) _neuron_large_show_all ;;
        one) _neuron_large_show_one ;;
      esac ;;
  esac
}
_neuron_large_files() {
  _arguments \
    '(-h --help)-h[Print this help message and exit]' \
    '(-h --help)--help[Print this help message and exit]' \
    '*:FILE:_files'
}
_neuron_large() {
  local state line
  _arguments -C \
    '(-h --help)-h[Print this help message and exit]' \
    '(-h --help)--help[Print this help message and exit]' \
    '(-t --text)-t[a text; it'\''s 100% \[sure\]\: yes]:TEXT:' \
    '(-t --text)--text[a text; it'\''s 100% \[sure\]\: yes]:TEXT:' \
    '--number[a number]:INT:' \
    '--large[a large one]:INT:' \
    '--small[a small one]:UINT:' \
    '--bytes[bytes]:UINT:' \
    '--real[a real]:FLOAT:' \
    '--maybe[perhaps]:SECONDS:' \
    '*--list[words]:WORD,...:' \
    '*--numbers[numbers]:INT:' \
    '*--sizes[sizes]:UINT:' \
    '--mode[how]:TEXT:(fast slow)' \
    '(-o --output)-o[where to]:FILE:_files' \
    '(-o --output)--output[where to]:FILE:_files' \
    '(-f --flag)-f[a flag]' \
    '(-f --flag)--flag[a flag]' \
    '*--cores[with --output]:UINT:' \
    '--word[even]:TEXT:' \
    '--choice[colour]:TEXT:(red green)' \
    '--version[print the version and exit]' \
    '1: :->command' '*:: :->argument'
  case $state in
    command)
      local -a commands=( 'show:show things' 'files:take files' )
      _describe command commands ;;
    argument)
      case $line[1] in
        show) _neuron_large_show ;;
        files) _neuron_large_files ;;
      esac ;;
  esac
}
_neuron_large "$@"
