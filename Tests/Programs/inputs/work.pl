# Hashes, strings, regular expressions, closures, weak references, forks, sprintf, pack, sort, eval.
use strict;
use warnings;
use Scalar::Util qw(weaken);
use List::Util qw(reduce shuffle sum);
use Data::Dumper;
use Digest::SHA qw(sha256_hex);
use Storable qw(dclone freeze thaw);
use POSIX qw(floor strftime);

my $state = 17;
sub next_number { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return $state % $_[0]; }

my %count;
for my $i (1 .. 200_000) {
    my $word = join '', map { chr(97 + next_number(6)) } 1 .. 4;
    $count{$word} += $i & 3;
    delete $count{$word} if next_number(10) == 0;
}
printf "words %d %s\n", scalar keys %count, sha256_hex(join ',', map { "$_=$count{$_}" } sort keys %count);

my $text = join "\n", map { sprintf "%05d: user%d\@host%d.example GET /path/%x?q=%s", $_, next_number(50), next_number(9), next_number(1 << 20), 'z' x next_number(30) } 1 .. 20_000;
my %hosts;
$hosts{$2}{$1}++ while $text =~ /^\d+: (user\d+)@(host\d+)\.example/mg;
print "hosts ", join(' ', map { "$_:" . scalar(keys %{ $hosts{$_} }) } sort keys %hosts), "\n";
(my $changed = $text) =~ s/(\w+)\?q=(z*)/length($2) . uc $1/ge;
print "changed ", sha256_hex($changed), "\n";
print "split ", scalar(split /[:\s@.]+/, $text), "\n";
print "tr ", ($text =~ tr/0-9//), "\n";

my @closures = map { my $n = $_; sub { $n += shift } } 1 .. 5000;
print "closures ", sum(map { $_->(10) } @closures), "\n";

my $freed = 0;
{ package Node; sub new { bless { data => [ (1) x 10 ] }, shift } sub DESTROY { $freed++ } }
for (1 .. 20_000) {
    my ($parent, $child) = (Node->new, Node->new);
    $parent->{child} = $child;
    weaken($child->{parent} = $parent);
}
print "freed $freed\n";

my $tree = { map { $_ => { list => [ 1 .. 20 ], name => "n$_" } } 1 .. 3000 };
my $copy = thaw(freeze(dclone($tree)));
local $Data::Dumper::Sortkeys = 1;
print "copy ", sha256_hex(Dumper($copy)) eq sha256_hex(Dumper($tree)) ? "same" : "other", "\n";

my @sorted = sort { $a->[1] cmp $b->[1] or $a->[0] <=> $b->[0] } map { [ $_, pack('N', next_number(1000)) ] } 1 .. 60_000;
print "sorted $sorted[0][0] $sorted[-1][0]\n";
print "reduce ", (reduce { ($a * 31 + $b) % 1000003 } map { $_->[0] } @sorted), "\n";
for my $round (1 .. 300) { my $value = eval "my \@list = map { \$_ * $round } 1 .. 50; die \"odd\\n\" if $round % 7 == 0; scalar \@list"; print '.' if $@; }
print "\n", strftime('%Y-%m-%d', gmtime 86400 * 10000), ' ', floor(-1.5), "\n";

for my $i (1 .. 10) {
    my $pid = fork;
    if (!$pid) { my @junk = map { "x" x $_ } 1 .. 1000; exit $i; }
    waitpid $pid, 0;
    print $? >> 8, ' ';
}
print "\n", scalar(`/bin/echo from a shell`);
my $long = '';
$long .= chr(65 + $_ % 26) x ($_ % 100) for 1 .. 50_000;
print length $long, ' ', unpack('%32C*', $long), ' ', index(reverse($long), 'CBA'), "\n";
