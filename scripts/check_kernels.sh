#!/usr/bin/env bash
# Checks kernels/ for operations of a whole warp or block behind && or || or ?:, where threads for which
# the left side decides do not take part: the others wait for them for ever.
set -euo pipefail
cd "$(dirname "$0")/.."
perl -0777 -ne '
  my $together = qr/__(?:shfl|ballot|any|all|match|reduce)\w*_sync|__syncwarp|__syncthreads\w*|
                    dqn_(?:warp|block)_(?:sum|max|min)|dqn_group_argmax|dqn_tree_choose/x;
  s{/\*.*?\*/}{my $gap = $&; $gap =~ s/[^\n]//g; $gap}egs;
  while (/[^;{}]+/g) {
    my ($text, $start) = ($&, $-[0]);
    next unless $text =~ /(?:&&|\|\||\?)[^;]*?\b($together)\b/s;
    my $line = 1 + (substr($_, 0, $start + $-[1]) =~ tr/\n//);
    print STDERR "$ARGV:$line: $1 is not reached by all threads: call it before the condition\n";
    $failed = 1;
  }
  END { print "kernels: ok\n" unless $failed; exit($failed ? 1 : 0) }
' kernels/*.cu kernels/*.cuh
