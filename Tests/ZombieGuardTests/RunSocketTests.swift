// The socket of a run: senders that are interrupted, send nothing, or send malformed messages.

import CSystem
import CZombie
import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct RunSocketTests {
    private let scratch: Scratch
    private let socket: RunSocket

    init() throws {
        scratch = try Scratch()
        socket = try RunSocket(at: scratch.path + "/socket", mode: 0o600)
    }

    private func connect() throws -> Descriptor {
        let descriptor = Descriptor(
            adopting: Glibc.socket(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0))
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: (scratch.path + "/socket").utf8) }
        let connected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor.number, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(connected == 0)
        return descriptor
    }

    private func send(_ message: zg_run_message, to descriptor: Descriptor) -> Bool {
        withUnsafeBytes(of: message) { Glibc.send(descriptor.number, $0.baseAddress, $0.count, 0) == $0.count }
    }

    private func heartbeat(_ index: UInt32) -> zg_run_message {
        zg_run_message(kind: zg_message_heartbeat.rawValue, index: index, place: 0, nonce: 0)
    }

    @Test func messageComesAfterItsConnection() throws {
        let sender = try connect()
        #expect(socket.receive().isEmpty)
        #expect(socket.receive().isEmpty)
        #expect(send(heartbeat(7), to: sender))
        let messages = socket.receive()
        #expect(messages.map(\.content) == [.heartbeat(7)])
        #expect(messages.map(\.sender.number) == [Int(getpid())])
    }

    @Test func senderThatClosesIsHeard() throws {
        #expect(try send(heartbeat(3), to: connect()))
        #expect(socket.receive().map(\.content) == [.heartbeat(3)])
        #expect(socket.receive().isEmpty)
    }

    @Test func silentConnectionsKeepNobodyOut() throws {
        let silent = try (0..<300).map { _ in try connect() }
        #expect(socket.receive().isEmpty)
        #expect(socket.receive().isEmpty)
        let sender = try connect()
        #expect(send(heartbeat(1), to: sender))
        #expect(socket.receive().map(\.content) == [.heartbeat(1)])
        // The socket keeps the newest 256 of 300 connections.
        #expect(send(heartbeat(2), to: silent[299]))
        #expect(socket.receive().map(\.content) == [.heartbeat(2)])
    }

    @Test func whatIsNoMessageIsLeftOut() throws {
        let sender = try connect()
        #expect(Glibc.send(sender.number, "short", 5, 0) == 5)
        #expect(try send(zg_run_message(kind: 99, index: 0, place: 0, nonce: 0), to: connect()))
        #expect(socket.receive().isEmpty)
    }
}
