// Anchors in the form of GitHub, so that a link to a heading works on a code host and on the site. The Go test of the
// pages has the same rule: anchor in docs/docstest/page_test.go.
export function anchor(heading) {
  return heading.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-');
}
