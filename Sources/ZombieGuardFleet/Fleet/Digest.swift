// SHA-256 (FIPS 180-4). Ids of findings are digests, which are the same on every machine and at any time.

import ZombieGuard

/// An incremental SHA-256 digest.
struct Digest {
    private var state: [UInt32] = [
        0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
    ]
    /// Bytes not yet mixed into the state: less than one block between calls.
    private var rest: [UInt8] = []
    private var length: UInt64 = 0

    private static let blockSize = 64

    mutating func add(_ bytes: [UInt8]) { bytes.withUnsafeBufferPointer { add($0) } }

    /// Adds a text and a terminating zero byte, so that adjacent texts cannot run together.
    mutating func add(_ text: String) {
        var text = text
        text.withUTF8 { add($0) }
        add([0])
    }

    private mutating func add(_ bytes: UnsafeBufferPointer<UInt8>) {
        length += UInt64(bytes.count)
        var bytes = bytes[...]
        if !rest.isEmpty {
            let missing = bytes.prefix(Self.blockSize - rest.count)
            rest += missing
            bytes = bytes.dropFirst(missing.count)
            if rest.count < Self.blockSize { return }
            rest.withUnsafeBytes { block in Self.mix(block, into: &state) }
            rest.removeAll(keepingCapacity: true)
        }
        let whole = bytes.prefix(bytes.count / Self.blockSize * Self.blockSize)
        Self.mix(UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: whole)), into: &state)
        rest += bytes.dropFirst(whole.count)
    }

    /// The first `count` bytes of the digest in hexadecimal. Finishes the digest: add nothing after this call.
    mutating func digits(_ count: Int = 32) -> String {
        let bits = length &* 8
        var end: [UInt8] = [0x80]
        end += [UInt8](repeating: 0, count: (2 * Self.blockSize - 9 - rest.count) % Self.blockSize)
        add(end + (0..<8).map { UInt8(truncatingIfNeeded: bits >> (56 - 8 * UInt64($0))) })
        var text: [UInt8] = []
        for word in state {
            for shift in stride(from: 28, through: 0, by: -4) {
                let digit = UInt8(truncatingIfNeeded: word >> UInt32(shift) & 15)
                text.append(digit < 10 ? 0x30 + digit : 0x57 + digit)
            }
        }
        return String(decoding: text.prefix(2 * count), as: UTF8.self)
    }

    /// Mixes whole blocks into the state.
    private static func mix(_ blocks: UnsafeRawBufferPointer, into state: inout [UInt32]) {
        func rotated(_ word: UInt32, _ count: UInt32) -> UInt32 { word &>> count | word &<< (32 &- count) }
        withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 64) { words in
            constants.withUnsafeBufferPointer { constants in
                for start in stride(from: 0, to: blocks.count, by: blockSize) {
                    for index in 0..<16 {
                        words[index] = UInt32(
                            bigEndian: blocks.loadUnaligned(fromByteOffset: start + 4 * index, as: UInt32.self))
                    }
                    for index in 16..<64 {
                        let early = words[index &- 15]
                        let late = words[index &- 2]
                        let low = rotated(early, 7) ^ rotated(early, 18) ^ early &>> 3
                        let high = rotated(late, 17) ^ rotated(late, 19) ^ late &>> 10
                        words[index] = words[index &- 16] &+ low &+ words[index &- 7] &+ high
                    }
                    var (a, b, c, d) = (state[0], state[1], state[2], state[3])
                    var (e, f, g, h) = (state[4], state[5], state[6], state[7])
                    // A round changes two of the eight state words and rotates all eight. The calls below rotate their
                    // arguments instead.
                    @inline(__always)
                    func round(
                        _ index: Int, _ a: UInt32, _ b: UInt32, _ c: UInt32, _ d: inout UInt32, _ e: UInt32,
                        _ f: UInt32,
                        _ g: UInt32, _ h: inout UInt32
                    ) {
                        let mixed = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)
                        let first = h &+ mixed &+ (e & f ^ ~e & g) &+ constants[index] &+ words[index]
                        d &+= first
                        h = first &+ (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) &+ (a & b ^ a & c ^ b & c)
                    }
                    for index in stride(from: 0, to: 64, by: 8) {
                        round(index, a, b, c, &d, e, f, g, &h)
                        round(index &+ 1, h, a, b, &c, d, e, f, &g)
                        round(index &+ 2, g, h, a, &b, c, d, e, &f)
                        round(index &+ 3, f, g, h, &a, b, c, d, &e)
                        round(index &+ 4, e, f, g, &h, a, b, c, &d)
                        round(index &+ 5, d, e, f, &g, h, a, b, &c)
                        round(index &+ 6, c, d, e, &f, g, h, a, &b)
                        round(index &+ 7, b, c, d, &e, f, g, h, &a)
                    }
                    for (index, word) in [a, b, c, d, e, f, g, h].enumerated() { state[index] &+= word }
                }
            }
        }
    }

    private static let constants: [UInt32] = [
        0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
        0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
        0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
        0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
        0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
        0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
        0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
        0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
    ]
}
