// Generates the completion script for zsh from the tables of commands and options.

import ZombieGuard

struct ZshCompletion {
    var text: String {
        """
        #compdef zguard
        # \(CompletionText.heading(.zsh))

        _zguard_commands() {
            local -a names=(
        \(described(CompletionText.commands.map { ($0.name, $0.text) }))    )
            _describe -t commands 'zguard command' names
        }

        _zguard_processes() {
            local -a pids names
            local pid name
            while IFS=$'\\t' read -r pid name; do
                pids+=("$pid") names+=("$pid  $name")
            done < <(zguard completions processes 2>/dev/null)
            compadd -V processes -l -d names -a pids
        }

        _zguard_program() {
            if [[ $PREFIX == */* ]]; then _files -g '*(-*)'; else _command_names -e; fi
        }

        # KEY=VALUE of the runtime's options.
        _zguard_settings() {
            local -a names=(
        \(described(CompletionText.settings.map { ($0.name, $0.text) }))    )
            if ! compset -P 1 '*='; then
                _describe -t settings 'option of the runtime' names -qS =
                return
            fi
            local key=${${IPREFIX%=}#-o}
            case ${key##*=} in
        \(settingValues)    esac
        }

        \(Command.all.map(function(of:)).joined())\
        _zguard() {
            local curcontext=$curcontext state line
            typeset -A opt_args
            _arguments -C -A '-*' '(- *)'{-h,--help}'[show help]' '(- *)--version[print the version]' \\
                '1:command:_zguard_commands' '*:: :->words' && return
            [[ $state == words ]] || return
            # zguard has one function for each of its commands.
            (( $+functions[_zguard-$words[1]] )) && _zguard-$words[1]
        }

        if [[ $funcstack[1] == _zguard ]]; then _zguard "$@"; else compdef _zguard zguard; fi

        """
    }

    private func described(_ rows: [(name: String, text: String)]) -> String {
        rows.map { row in
            let text = row.text.replacing("\\", with: "\\\\").replacing(":", with: "\\:")
            return "        \(CompletionText.quoted("\(row.name):\(text)"))\n"
        }.joined()
    }

    private var settingValues: String {
        CompletionText.settings.compactMap { setting in
            switch setting.kind {
            case .choice(let choices): "    \(setting.name)) compadd -- \(choices.joined(separator: " ")) ;;\n"
            case .file: "    \(setting.name)) _files ;;\n"
            default: nil
            }
        }.joined()
    }

    private func function(of command: Command) -> String {
        var specifications = command.flags.map { specification(of: $0, command) }
        specifications.append("'(- *)'{-h,--help}'[show help]'")
        for (index, operand) in command.operandList.enumerated() where !(command.takesProgram && index > 0) {
            let kinds = operand.kinds
            if command.takesProgram {
                // All words after the program are the program's arguments.
                specifications.append(CompletionText.quoted("(-):program:_zguard_program"))
                specifications.append(CompletionText.quoted("*::argument: _normal"))
            } else {
                let position = operand.repeats ? "*" : operand.isOptional ? "\(index + 1):" : "\(index + 1)"
                specifications.append(CompletionText.quoted("\(position):\(operand.placeholder):\(action(kinds))"))
            }
        }
        let lines = specifications.map { "        \($0)" }.joined(separator: " \\\n")
        return "_zguard-\(command.name)() {\n    _arguments -S -A '-*' \\\n\(lines)\n}\n\n"
    }

    private func specification(of flag: Flag, _ command: Command) -> String {
        let text = flag.text.reduce(into: "") { text, character in
            if "[]\\:".contains(character) { text.append("\\") }
            text.append(character)
        }
        var word = (flag.repeats ? "*" : "") + flag.name
        guard let placeholder = flag.placeholder, let kinds = flag.valueKinds else {
            return CompletionText.quoted("\(word)[\(text)]")
        }
        // "=" accepts "--flag value" and "--flag=value"; "+" accepts "-f value" and "-fvalue".
        word += flag.name.hasPrefix("--") ? "=" : "+"
        let colon = flag.needsValue ? ":" : "::"
        // After a flag with an optional number, the next word may also be the first operand.
        let offered = flag.takesNumber ? command.operandList.first?.kinds ?? kinds : kinds
        return CompletionText.quoted(
            "\(word)[\(text)]\(colon)\(placeholder.replacing("|", with: " or ")):\(action(offered))")
    }

    private func action(_ kinds: [ValueKind]) -> String {
        let actions = kinds.map { kind in
            switch kind {
            case .text: " "
            case .file: "_files"
            case .directory: "_files -/"
            case .program: "_zguard_program"
            case .process: "_zguard_processes"
            case .command: "_zguard_commands"
            case .setting: "_zguard_settings"
            case .choice(let choices): "(\(choices.joined(separator: " ")))"
            }
        }
        return actions.count == 1 ? actions[0] : "{ \(actions.joined(separator: "; ")) }"
    }
}
