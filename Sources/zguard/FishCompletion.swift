// Generates the completion script for fish from the tables of commands and options.

import ZombieGuard

struct FishCompletion {
    var text: String {
        """
        # \(CompletionText.heading(.fish))

        # Flags whose value is the next word.
        set -g __zguard_valued \(words { $0.needsValue })
        # Flags behind which a number may stand.
        set -g __zguard_numbered \(words { $0.takesNumber })
        # Commands whose operands are a program and its own words.
        set -g __zguard_with_program \(Command.all.filter(\.takesProgram).map(\.name).joined(separator: " "))

        # True where the command $argv[1] is being completed ('': the command itself), and there, by $argv[2], a flag or its value
        # ("flags"), the operand behind so many others (a number), or any operand (none given).
        function __zguard_at
            set -l words (commandline -opc)[2..]
            set -l command ''
            set -l operands 0
            set -l valued 0
            set -l ended 0
            for word in $words
                if test -z "$command"
                    set command $word
                else if test $valued = 1; or begin; test $valued = number; and string match -qr -- '^[0-9.]+$' "$word"; end
                    set valued 0
                else if test $ended = 1
                    set operands (math $operands + 1)
                else if test "$word" = --
                    set ended 1
                else if contains -- "$command $word" $__zguard_valued
                    set valued 1
                else if contains -- "$command $word" $__zguard_numbered
                    set valued number
                else if not string match -qr -- '^-.' "$word"
                    set valued 0
                    set operands (math $operands + 1)
                    contains -- $command $__zguard_with_program; and set ended 1
                end
            end
            test "$command" = "$argv[1]"; or return 1
            switch "$argv[2]"
                case flags
                    test $ended = 0
                case ''
                    test $valued != 1
                case '*'
                    test $valued != 1 -a $operands = $argv[2]
            end
        end

        function __zguard_processes
            # Fish says so where a command does not exist, whatever becomes of standard error.
            command -q zguard; and command zguard completions processes 2>/dev/null
        end

        function __zguard_settings
            set -l token (string replace -r '^-o' '' -- (commandline -ct))
            switch "$token"
        \(settingValues)        case '*=*'
                case '*'
                    printf '%s\\t%s\\n' \\
        \(settingNames)
            end
        end

        # A program and its own words, completed as if they stood alone.
        function __zguard_program
            set -l words (commandline -opc)[2..]
            set -l rest
            set -l valued 0
            for index in (seq 2 (count $words))
                set -l word $words[$index]
                if test $valued = 1
                    set valued 0
                else if test "$word" = --
                    set rest $words[(math $index + 1)..]
                    break
                else if contains -- "$words[1] $word" $__zguard_valued
                    set valued 1
                else if not string match -qr -- '^-.' "$word"
                    set rest $words[$index..]
                    break
                end
            end
            # A flag of zguard's own is none of a program's.
            if set -q rest[1]; or not string match -q -- '-*' (commandline -ct)
                complete -C (string join ' ' -- (string escape -- $rest) (commandline -ct))
            end
        end

        complete -c zguard -f
        complete -c zguard -n "__zguard_at ''" -s h -l help -d 'show help'
        complete -c zguard -n "__zguard_at ''" -l version -d 'print the version'
        \(commands)
        """
    }

    /// Words "COMMAND --flag" for all flags that satisfy a condition.
    private func words(_ isIncluded: (Flag) -> Bool) -> String {
        Command.all.flatMap { command in
            command.flags.filter(isIncluded).map { Self.quoted("\(command.name) \($0.name)") }
        }.joined(separator: " ")
    }

    private var settingValues: String {
        CompletionText.settings.compactMap { setting in
            switch setting.kind {
            case .choice(let choices):
                "        case '\(setting.name)=*'\n            printf '%s\\n' "
                    + choices.map { "\(setting.name)=\($0)" }.joined(separator: " ") + "\n"
            case .file:
                "        case '\(setting.name)=*'\n            complete -C \"'' \"(string escape -- (string replace "
                    + "-r '^[^=]*=' '' -- $token)) | string replace -r '^' \(setting.name)=\n"
            default: nil
            }
        }.joined()
    }

    private var settingNames: String {
        CompletionText.settings.map { "            \($0.name)= \(Self.quoted($0.text))" }.joined(separator: " \\\n")
    }

    private var commands: String {
        var lines: [String] = []
        for command in Command.all {
            lines.append(
                "complete -c zguard -n \"__zguard_at ''\" -a \(command.name) -d \(Self.quoted(command.text))")
            for flag in command.allFlags { lines.append(line(of: flag, command)) }
            for (index, operand) in command.operandList.enumerated() where !(command.takesProgram && index > 0) {
                let place = operand.repeats || command.takesProgram ? "" : " \(index)"
                for kind in operand.kinds {
                    lines.append(
                        "complete -c zguard -n \"__zguard_at \(command.name)\(place)\" \(arguments(kind))")
                }
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private func line(of flag: Flag, _ command: Command) -> String {
        let isLong = flag.name.hasPrefix("--")
        var line = "complete -c zguard -n \"__zguard_at \(command.name) flags\""
        line += isLong ? " -l \(flag.name.dropFirst(2))" : " -s \(flag.name.dropFirst())"
        if flag.name == Command.help.name { line += " -s h" }
        if flag.needsValue {
            let kinds = flag.valueKinds ?? []
            // "-x" would forbid the files that "-F" adds.
            line += kinds.contains(.file) ? " -r " : " -x "
            line += kinds.map(arguments).joined(separator: " ")
        }
        return line + " -d \(Self.quoted(flag.text))"
    }

    private func arguments(_ kind: ValueKind) -> String {
        switch kind {
        case .text: ""
        case .file: "-F"
        case .directory: "-a '(__fish_complete_directories (commandline -ct))'"
        case .program: "-a '(__zguard_program)'"
        case .process: "-a '(__zguard_processes)'"
        case .command: "-a '\(CompletionText.commands.map(\.name).joined(separator: " "))'"
        case .setting: "-a '(__zguard_settings)'"
        case .choice(let choices): "-a '\(choices.joined(separator: " "))'"
        }
    }

    /// Quotes a text as one word of fish.
    private static func quoted(_ text: String) -> String {
        "'" + text.replacing("\\", with: "\\\\").replacing("'", with: "\\'") + "'"
    }
}
