# SPDX-License-Identifier: Apache-2.0
_neuron_large() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" path='' word
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$path $word" in
      ' show'|' show all'|' show one'|' files') path="$path $word" ;;
    esac
  done
  case "$path" in
    '')
      case "$previous" in
        -t|--text) COMPREPLY=(); return ;;
        --number) COMPREPLY=(); return ;;
        --large) COMPREPLY=(); return ;;
        --small) COMPREPLY=(); return ;;
        --bytes) COMPREPLY=(); return ;;
        --real) COMPREPLY=(); return ;;
        --maybe) COMPREPLY=(); return ;;
        --list) COMPREPLY=(); return ;;
        --numbers) COMPREPLY=(); return ;;
        --sizes) COMPREPLY=(); return ;;
        --mode) COMPREPLY=($(compgen -W 'fast slow' -- "$current")); return ;;
        -o|--output) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
        --cores) COMPREPLY=(); return ;;
        --word) COMPREPLY=(); return ;;
        --choice) COMPREPLY=($(compgen -W 'red green' -- "$current")); return ;;
      esac
      COMPREPLY=($(compgen -W '-h --help -t --text --number --large --small --bytes --real --maybe --list --numbers --sizes --mode -o --output -f --flag --cores --word --choice --version show files' -- "$current"))
      ;;
    ' show')
      COMPREPLY=($(compgen -W '-h --help all one' -- "$current"))
      ;;
    ' show all')
      COMPREPLY=($(compgen -W '-h --help' -- "$current"))
      ;;
    ' show one')
      COMPREPLY=($(compgen -W '-h --help' -- "$current"))
      ;;
    ' files')
      if [[ $current != -* ]]; then compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return; fi
      COMPREPLY=($(compgen -W '-h --help' -- "$current"))
      ;;
  esac
}
complete -F _neuron_large neuron-large
