# A real program for Tests/Robustness/faults.py: an interpreter, which allocates for every value.
use strict;
use warnings;
my (%count, @words);
my $state = 1;
for my $i (1 .. 4000) {
    $state = ($state * 1103515245 + 12345) & 0x7fffffff;
    push @words, join '', map { chr(97 + ($state >> $_ * 3) % 26) } 0 .. $state % 7;
}
$count{$_}++ for @words;
my @sorted = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
printf "%d different words, first %s\n", scalar @sorted, join ' ', @sorted[0 .. 9];
my $text = join ' ', @words;
$text =~ s/([aeiou])/\U$1/g;
my $pieces = () = $text =~ /\b\w*A\w*\b/g;
print "$pieces pieces of ", length $text, "\n";
my @parts = map { my $n = $_; [map { $_ * $n } 1 .. $n % 40] } 1 .. 600;
my $sum = 0;
$sum += $_ for map { @$_ } @parts;
print "sum $sum\n";
my $child = open my $pipe, '-|';
if (!$child) { print "from a child: ", 'x' x 3000, "\n"; exit 4 }
my $line = <$pipe>;
close $pipe;
print length $line, " bytes, status ", $? >> 8, "\n";
exit 5;
