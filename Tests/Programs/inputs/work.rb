# Strings, hashes, a garbage collector under stress, threads, fibers, forks, no Ractors, regular expressions, structs.
require 'digest'
require 'json'
require 'set'
require 'stringio'
require 'zlib'

state = 99
number = ->(limit) { state = (state * 6364136223846793005 + 1442695040888963407) & 0xffffffffffffffff; (state >> 33) % limit }

words = Hash.new(0)
150_000.times { |i| words[(0...4).map { (97 + number.(6)).chr }.join] += i }
puts "words #{words.size} #{Digest::SHA256.hexdigest(words.sort.inspect)}"

Point = Struct.new(:x, :y) { def +(other) = Point.new(x + other.x, y + other.y) }
puts (1..100_000).map { |i| Point.new(i, number.(100)) }.reduce(:+).inspect

data = (1..8000).map { |i| { 'id' => i, 'tags' => Array.new(5) { number.(100).to_s(36) }, 'text' => 'é' * number.(20) } }
text = JSON.generate(data)
puts "json #{JSON.parse(text) == data} #{Digest::MD5.hexdigest(text)}"
puts "zlib #{Zlib::Inflate.inflate(Zlib::Deflate.deflate(text)).bytesize == text.bytesize}"
puts "scan #{text.scan(/"id":(\d+)/).flatten.map(&:to_i).sum} #{text.gsub(/[0-9]+/) { |m| m.reverse }.hash == 0}"

threads = (1..6).map { |t| Thread.new { Array.new(3000) { |i| "#{t}-#{i}" * 3 }.join.sum } }
puts "threads #{threads.map(&:value).inspect}"
fiber = Fiber.new { 5000.times { |i| Fiber.yield [i] * 10 }; nil }
total = 0
while (list = fiber.resume) do total += list.sum end
puts "fiber #{total}"

GC.stress = true
stressed = (1..40).map { |i| "stress #{i}".dup << 'x' * i }
GC.stress = false
puts "stress #{stressed.join.size}"
5.times { GC.start; GC.compact if GC.respond_to?(:compact) }
puts "big #{(3**5000).to_s.sum} #{(1..300).reduce(:*).to_s.size}"
puts "set #{Set.new(data.flat_map { |one| one['tags'] }).size}"
pids = (1..5).map { |i| fork { Array.new(5000) { |n| n.to_s }; exit! i } }
puts "forks #{pids.map { |pid| Process.wait2(pid)[1].exitstatus }.inspect}"
puts "sub #{`echo from a shell`.strip}"
puts [1, 2, 3].lazy.map { |i| i * 2 }.select(&:even?).first(2).inspect
