// Generates the completion script for bash from the tables of commands and options. The script does not need the
// package bash-completion.

import ZombieGuard

struct BashCompletion {
    var text: String {
        """
        # \(CompletionText.heading(.bash))

        _zguard_commands=\(CompletionText.quoted(CompletionText.commands.map(\.name).joined(separator: " ")))
        _zguard_settings=\(CompletionText.quoted(CompletionText.settings.map(\.name).joined(separator: " ")))

        # What is expected behind "COMMAND --flag", or as operand "COMMAND 1"; "COMMAND +" is every later operand.
        # "number": the next word belongs to the flag where it is one.
        _zguard_kind() {
            case $1 in
        \(kinds)    *) REPLY= ;;
            esac
        }

        _zguard_flags() {
            case $1 in
        \(flags)    *) REPLY= ;;
            esac
        }

        # The values of an option of the runtime.
        _zguard_setting() {
            case $1 in
        \(settings)    *) REPLY= ;;
            esac
        }

        \(Self.functions)
        complete -F _zguard zguard

        """
    }

    private var kinds: String {
        var rows: [String] = []
        func add(_ key: String, _ kinds: [ValueKind]) {
            rows.append("    \(CompletionText.quoted(key))) REPLY=\(CompletionText.quoted(Self.word(kinds))) ;;\n")
        }
        for command in Command.all {
            for flag in command.flags where flag.needsValue {
                add("\(command.name) \(flag.name)", flag.valueKinds ?? [])
            }
            for flag in command.flags where flag.takesNumber {
                rows.append("    \(CompletionText.quoted("\(command.name) \(flag.name)"))) REPLY=number ;;\n")
            }
            for (index, operand) in command.operandList.enumerated() {
                add("\(command.name) \(operand.repeats ? "+" : "\(index + 1)")", operand.kinds)
            }
        }
        return rows.joined()
    }

    /// Names of the kinds for the script: "file", "process file", "choice text json".
    private static func word(_ kinds: [ValueKind]) -> String {
        kinds.map { kind in
            switch kind {
            case .text: "text"
            case .file: "file"
            case .directory: "directory"
            case .program: "program"
            case .process: "process"
            case .command: "command"
            case .setting: "setting"
            case .choice(let choices): "choice " + choices.joined(separator: " ")
            }
        }.joined(separator: " ")
    }

    private var flags: String {
        Command.all.map { command in
            let names = command.allFlags.map(\.name).joined(separator: " ")
            return "    \(command.name)) REPLY=\(CompletionText.quoted(names)) ;;\n"
        }.joined()
    }

    private var settings: String {
        CompletionText.settings.map { setting in
            "    \(setting.name)) REPLY=\(CompletionText.quoted(Self.word([setting.kind]))) ;;\n"
        }.joined()
    }

    private static let functions = #"""
        # Adds what can stand for $2, of the kinds $1, each behind the text $3.
        _zguard_add() {
            local value=$2 before=$3 kind line REPLY
            local -a found=()
            for kind in $1; do
                case $kind in
                text | number) ;;
                choice)
                    mapfile -t found < <(compgen -W "${1#*choice}" -- "$value")
                    break ;;
                command)
                    mapfile -t -O ${#found[@]} found < <(compgen -W "$_zguard_commands" -- "$value") ;;
                process)
                    while IFS=$'\t' read -r line _; do
                        [[ $line == "$value"* ]] && found+=("$line")
                    done < <(zguard completions processes 2>/dev/null) ;;
                setting)
                    if [[ $value == *=* ]]; then
                        _zguard_setting "${value%%=*}"
                        _zguard_add "$REPLY" "${value#*=}" "$before${value%%=*}="
                        return
                    fi
                    compopt -o nospace 2>/dev/null
                    mapfile -t found < <(compgen -S = -W "$_zguard_settings" -- "$value") ;;
                program)
                    if [[ $value != */* ]]; then
                        mapfile -t -O ${#found[@]} found < <(compgen -c -- "$value" | sort -u)
                    else
                        _zguard_files file
                    fi ;;
                file | directory) _zguard_files $kind ;;
                esac
            done
            for line in "${found[@]}"; do COMPREPLY+=("$before$line"); done
        }

        # Adds files to "found". What bash itself has to unquote or expand is left to bash.
        _zguard_files() {
            local action=-f
            [[ $1 == directory ]] && action=-d
            mapfile -t -O ${#found[@]} found < <(compgen $action -- "$value")
            if ((${#found[@]})); then compopt -o filenames 2>/dev/null; else compopt -o default 2>/dev/null; fi
        }

        _zguard() {
            local command= pending= ended= glued= word current prefix= REPLY
            local -a words=() starts=()
            local -i index program=0 operands=0
            COMPREPLY=()
            # What was split at a sign of COMP_WORDBREAKS is one word again; an empty word follows a blank.
            for ((index = 1; index <= COMP_CWORD; index++)); do
                word=${COMP_WORDS[index]}
                if ((${#words[@]})) && [[ -n $word && ($glued || $word == [=:]*) ]]; then
                    words[${#words[@]} - 1]+=$word
                else
                    words+=("$word") starts+=($index)
                fi
                if [[ $word =~ ^[=:]+$ ]]; then glued=1; else glued=; fi
            done
            current=${words[-1]}

            for ((index = 0; index < ${#words[@]} - 1; index++)); do
                word=${words[index]}
                if [[ -z $command ]]; then
                    command=$word
                elif [[ -n $pending && ($pending != number || $word =~ ^[0-9.]+$) ]]; then
                    pending=
                elif [[ -z $ended && $word == -- ]]; then
                    ended=1
                elif [[ -z $ended && $word == -?* ]]; then
                    _zguard_kind "$command $word"
                    pending=$REPLY
                else
                    pending=
                    operands+=1
                    _zguard_kind "$command $operands"
                    if [[ $REPLY == program ]]; then
                        program=${starts[index]}
                        break
                    fi
                fi
            done

            if ((program)); then
                if declare -F _command_offset >/dev/null; then _command_offset $program; else _zguard_add file "$current" ''; fi
                return
            fi
            if [[ -n $pending && $pending != number ]]; then
                _zguard_add "$pending" "$current" ''
            elif [[ -z $command ]]; then
                if [[ $current == -* ]]; then
                    mapfile -t COMPREPLY < <(compgen -W '--help --version' -- "$current")
                else
                    _zguard_add command "$current" ''
                fi
            elif [[ -z $ended && $current == --*=* ]]; then
                _zguard_kind "$command ${current%%=*}"
                _zguard_add "$REPLY" "${current#*=}" "${current%%=*}="
            elif [[ -z $ended && $current == -[!-]?* ]]; then
                _zguard_kind "$command ${current:0:2}"
                _zguard_add "$REPLY" "${current:2}" "${current:0:2}"
            elif [[ -z $ended && $current == -* ]]; then
                _zguard_flags "$command"
                mapfile -t COMPREPLY < <(compgen -W "$REPLY" -- "$current")
            else
                _zguard_kind "$command $((operands + 1))"
                [[ -n $REPLY ]] || _zguard_kind "$command +"
                _zguard_add "${REPLY:-text}" "$current" ''
            fi

            # Bash replaces only what follows the last sign at which it splits words.
            [[ $COMP_WORDBREAKS == *:* && $current == *:* ]] && prefix=${current%"${current##*:}"}
            [[ $COMP_WORDBREAKS == *=* && ${current#"$prefix"} == *=* ]] && prefix=${current%"${current##*=}"}
            if [[ -n $prefix ]]; then
                for index in "${!COMPREPLY[@]}"; do COMPREPLY[index]=${COMPREPLY[index]#"$prefix"}; done
            fi
        }
        """#
}
