// Runs one case: Shop [--kept | --reused] CASE. Cases.swift, which names them all, is made by the driver.

import Foundation

var arguments = Array(CommandLine.arguments.dropFirst())
if arguments.first == "--kept" { fate = .kept }
if arguments.first == "--reused" { fate = .reused }
reusedBlocks.reserveCapacity(1000)
let name = arguments.last ?? ""

do {
    if try runCase(name) { done("returned") }
} catch {
    done("the case \(name) threw \(error)")
}
Task.detached {
    do {
        if try await runAsyncCase(name) { done("returned") }
    } catch {
        done("the case \(name) threw \(error)")
    }
    FileHandle.standardError.write(Data("there is no case '\(name)'\n".utf8))
    exit(64)
}
DispatchSemaphore(value: 0).wait()
