// Suggests the valid name that is most similar to a mistyped name.

/// The candidate with the smallest edit distance to a name; nil if none is close.
///
/// - Parameters:
///   - name: the mistyped name.
///   - candidates: the valid names.
/// - Returns: one of the candidates.
public func nearestName(to name: String, among candidates: [String]) -> String? {
    let nearest = candidates.map { ($0, editDistance(name, $0)) }.min { $0.1 < $1.1 }
    guard let (candidate, distance) = nearest else { return nil }
    return distance <= max(1, min(3, name.count / 2)) ? candidate : nil
}

/// The number of insertions, deletions, replacements and swaps of neighbors that lead from one text to the other.
func editDistance(_ first: String, _ second: String) -> Int {
    let a = Array(first.utf8)
    let b = Array(second.utf8)
    var older: [Int] = []
    var previous = Array(0...b.count)
    for i in a.indices {
        var row = [i + 1]
        for j in b.indices {
            var cost = min(previous[j + 1] + 1, row[j] + 1, previous[j] + (a[i] == b[j] ? 0 : 1))
            if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { cost = min(cost, older[j - 1] + 1) }
            row.append(cost)
        }
        older = previous
        previous = row
    }
    return previous[b.count]
}
