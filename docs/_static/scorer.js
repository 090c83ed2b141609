// Whose results of a search stand first: guides, tutorials, the reference, studies, what was changed.
const FACTORS = [
  [/^docs\/(changelog|references)|^\.github\//, 0.2],
  [/^benchmarks\//, 0.4],
  [/^docs\/reference(\/|$)/, 0.4],
  [/^docs\/(explanations|tutorials|how_to$|index)/, 0.9],
  [/^docs\//, 1.6],
  [/^notebooks\//, 1.2],
];
const EXACT = Scorer.objNameMatch + Scorer.objPrio[1];  // a name as it was typed

Scorer.score = ([page, , , , score, , kind]) =>
  kind === 'object' && score >= EXACT ? 3 * score : score * (FACTORS.find(([place]) => place.test(page)) ?? [0, 1])[1];
