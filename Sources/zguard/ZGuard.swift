// The entry point of zguard: runs the command that the first word names.

import Glibc
import ZombieGuard

@main
struct ZGuard {
    static func main() { exit(run(Array(OwnProgram.arguments.dropFirst()))) }

    static func run(_ words: [String]) -> Int32 {
        do {
            guard let first = words.first else {
                Output.error(HelpText.overview)
                return ExitStatus.usage
            }
            if first == "--help" || first == "-h" {
                Output.out(HelpText.overview)
                return ExitStatus.success
            }
            let command = try Command.named(first == "--version" ? "version" : first)
            let arguments = try command.parse(Array(words.dropFirst()))
            if arguments.wantsHelp {
                Output.out(HelpText.text(of: command))
                return ExitStatus.success
            }
            let status = try command.run(arguments)
            // A closed standard output or a reader that went away is not an error.
            if let error = Output.failure, ![EPIPE, EBADF].contains(error.number) {
                throw Failure("cannot write standard output: \(error)")
            }
            return status
        } catch let failure as Failure {
            Output.print(failure)
            return failure.status
        } catch let error as ProcessError {
            let failure = Failure(error)
            Output.print(failure)
            return failure.status
        } catch let refusal as ProgramRefusal {
            let failure = Failure(refusal)
            Output.print(failure)
            return failure.status
        } catch {
            Output.print(Failure("\(error)"))
            return ExitStatus.failure
        }
    }
}
