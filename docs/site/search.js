/* Scores of search results: Sphinx's own, then corrected by page. */
"use strict";

var Scorer = {
  score: ([page, title, anchor, description, score, file, kind]) => {
    if (kind === SearchResultKind.title) return score + 20; // a heading with the whole query
    if (page.startsWith("docs/decisions/") || page === "CHANGELOG" || page === "docs/renamed") return score - 20;
    return page === "docs/index" ? score + 5 : score; // its questions
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// Browsers let no page read another file of this computer, from which a summary is made.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
