// swift package zguard-run: builds an executable of a package and runs it under zguard.

import PackagePlugin

@main struct ZGuardRun: CommandPlugin {
    private static let table = PluginArguments.Table(
        verb: "zguard-run", synopsis: "[OPTION…] TARGET [ARG…]",
        summary: "Builds an executable of the package and runs it guarded by ZombieGuard.",
        options: PluginArguments.forwarded + PluginArguments.common, takesProgram: true)

    func performCommand(context: PluginContext, arguments: [String]) async throws {
        perform(arguments, Self.table) { arguments in
            let run = try GuardedRun(context, packageManager, arguments)
            let products = context.package.products(ofType: ExecutableProduct.self)
            let names = products.map(\.name).sorted().joined(separator: ", ")
            let known = names.isEmpty ? "the package has no executables" : "expected one of: \(names)"
            guard let name = arguments.operands.first else {
                throw PluginFailure(message: "no target is named; \(known)", status: .usage)
            }
            guard let product = products.first(where: { $0.name == name || $0.mainTarget.name == name }) else {
                throw PluginFailure(message: "there is no executable '\(name)'; \(known)", status: .usage)
            }
            let built = try run.build(.product(product.name), "'\(product.name)'").builtArtifacts
            guard
                let program = built.first(where: { $0.kind == .executable && $0.url.lastPathComponent == product.name })
            else {
                throw PluginFailure(message: "the build left no '\(product.name)'")
            }
            return try run.run(program.url.path, Array(arguments.operands.dropFirst()), options: arguments.forwarded)
        }
    }
}
