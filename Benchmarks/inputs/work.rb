# Strings, hashes, structs, JSON and regular expressions.
require 'json'

rounds = [1, (12 * ARGV[0].to_f).to_i].max
state = 99
number = ->(limit) { state = (state * 1103515245 + 12345) & 0x7fffffff; (state >> 8) % limit }
Record = Struct.new(:id, :name, :tags)

total = 0
rounds.times do |round|
  words = Hash.new { |hash, key| hash[key] = [] }
  25_000.times { |i| words[(0...4).map { (97 + number.(7)).chr }.join] << "value #{i} of #{round}" }
  records = words.sort.map.with_index { |(name, values), i| Record.new(i, name, values.first(3)) }
  text = JSON.generate(records.map(&:to_h))
  back = JSON.parse(text)
  total += back.sort_by { |one| [one['name'].reverse, one['id']] }.first['id']
  total += text.gsub(/value (\d+)/) { |match| match.upcase + $1.reverse }.length
  total += back.flat_map { |one| one['tags'] }.group_by { |tag| tag[-1] }.sum { |_, tags| tags.join.length }
end
puts total
