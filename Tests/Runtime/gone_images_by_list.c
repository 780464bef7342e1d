// Stacks that lead into a closed library, with images found by the loader's list.
// preload
// library: loading_library.c
// options: on_finding=continue:find_object=0:report_path=/tmp/zguard-gone-%p.jsonl

#include "gone_images.c"
