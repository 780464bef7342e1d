# Hashes, strings and regular expressions.
use strict;
use warnings;

my $rounds = int(8 * $ARGV[0]) || 1;
my ($state, $total) = (17, 0);
sub next_number { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return ($state >> 8) % $_[0]; }
for my $round (1 .. $rounds) {
    my %count;
    for my $i (1 .. 30_000) {
        my $word = join '', map { chr(97 + next_number(7)) } 1 .. 4;
        push @{ $count{$word} }, "$word-$i";
        delete $count{$word} if @{ $count{$word} } > 12;
    }
    my $text = join "\n", map { sprintf '%s: user%d@host%d GET /%x?q=%s', $_, next_number(50), next_number(9), next_number(1 << 20), 'z' x next_number(30) } sort keys %count;
    my %hosts;
    $hosts{$2}{$1}++ while $text =~ /(user\d+)@(host\d+)/g;
    (my $changed = $text) =~ s/(\w+)\?q=(z*)/length($2) . uc $1/ge;
    my @sorted = sort { reverse($a) cmp reverse($b) } map { split /[:\s@]+/ } split /\n/, $changed;
    $total += length($changed) + @sorted + keys %hosts;
}
print "$total\n";
