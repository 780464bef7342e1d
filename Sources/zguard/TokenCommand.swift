// zguard token: adds a token to the file of `zguard serve --tokens`, and prints it once.

import ZombieGuard
import ZombieGuardFleet

enum TokenCommand {
    private static func run(_ arguments: Arguments) throws -> Int32 {
        func wrong(_ flag: String, _ text: String, _ expected: String) -> Failure {
            .usage("option '\(flag)' has the bad value '\(visible(text))': expected \(expected)")
        }
        let (path, name) = (arguments.operands[0], arguments.operands[1])
        guard Token.isWord(name) else {
            throw Failure.usage(
                "the name '\(visible(name))' cannot be used: expected up to 100 characters without spaces")
        }
        let roles = arguments.value("--role") ?? Role.read.rawValue
        guard let roles = Token.roles(roles) else {
            throw wrong("--role", roles, "some of \(Role.allCases.map(\.rawValue).joined(separator: ","))")
        }
        let tenants = arguments.value("--tenant") ?? ShippedFinding.Sender.standardTenant
        guard let tenants = Token.tenants(tenants) else {
            throw wrong("--tenant", tenants, "names without spaces, separated by commas, or *")
        }
        let (token, text) = Token.make(for: User(name: name, roles: roles, tenants: tenants))
        do throws(FleetError) { try TokenFile.add(token, to: path) } catch {
            throw Failure("\(error)", hint: error.hint)
        }
        Output.out(text + "\n")
        return ExitStatus.success
    }

    static let command = Command(
        name: "token", operands: "FILE NAME", operandCount: 2...2,
        text: "add a token to the file of 'serve --tokens', which keeps its hash alone, and print it",
        flags: [
            Flag(
                name: "--role", value: .required("ROLE"),
                text: "read (default), triage, ship, or several, separated by commas"),
            Flag(
                name: "--tenant", value: .required("TEXT"),
                text: "tenant whose findings it is for (default: default); several: separated by commas; *: all"),
        ], run: run)
}
