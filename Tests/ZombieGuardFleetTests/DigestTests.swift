// Compares SHA-256 with published values.

import Testing

@testable import ZombieGuardFleet

@Suite struct DigestTests {
    /// FIPS 180-4's examples, and texts of about a block's length, added in pieces of every size.
    @Test func digestsAreSHA256() {
        func digest(_ pieces: [[UInt8]]) -> String {
            var digest = Digest()
            for piece in pieces { digest.add(piece) }
            return digest.digits()
        }
        #expect(digest([]) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        #expect(digest([Array("abc".utf8)]) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        let long = Array("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq".utf8)
        #expect(digest([long]) == "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1")
        for count in 50...140 {
            let bytes = (0..<count).map { UInt8($0) }
            for piece in [1, 7, 63, 64, 65] {
                let pieces = stride(from: 0, to: count, by: piece).map { Array(bytes[$0..<min(count, $0 + piece)]) }
                #expect(digest(pieces) == digest([bytes]))
            }
        }
    }
}
