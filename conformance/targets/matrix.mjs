// Writes the results of the reports in .cache/targets/reports into docs/conformance.md, between the two markers: the
// servers with their versions, the matrix, and the notes on each broken rule from notes.md. A broken rule without a note
// is an error, and so is a note without a broken rule.
// It also writes .cache/targets/matrix.html. Each cell there leads to the requests and responses behind it.
//
//   node conformance/targets/matrix.mjs
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.join(here, '..', '..');
const reportsDir = path.join(root, '.cache', 'targets', 'reports');
const page = path.join(root, 'docs', 'conformance.md');

const setups = fs.readFileSync(path.join(here, 'setups'), 'utf8').split('\n').filter((l) => l && !l.startsWith('#'));
const programs = new Map(setups.map((l) => l.split(' ')).map(([name, program]) => [name, program ?? name]));
const names = [...programs.keys()];
const letter = (i) => (i < 26 ? '' : letter(Math.floor(i / 26) - 1)) + String.fromCharCode(65 + (i % 26));
const weights = ['skip', 'pass', 'info', 'warn', 'inconclusive', 'blocked', 'fail', 'harness'];
const signs = { pass: '✓', info: 'i', warn: '▲', fail: '✗', blocked: '∅', inconclusive: '?', skip: '–', harness: '!' };
const broken = (verdict) => verdict === 'fail' || verdict === 'warn';
const own = (source) => source.ref.startsWith('redo contract');

function runsOf(name) {
  const files = fs.readdirSync(reportsDir).filter((f) => new RegExp(`^${name}\\.\\d+\\.json$`).test(f)).sort();
  if (files.length === 0) throw new Error(`${name} has no report: run bash conformance/targets/run first`);
  return files.map((f) => JSON.parse(fs.readFileSync(path.join(reportsDir, f), 'utf8')));
}

// outside returns the strongest level of the rule in a source other than redo's own contract.
function outside(result) {
  const sources = result.sources.filter((s) => !own(s));
  for (const level of ['MUST', 'SHOULD', 'MAY']) {
    if (sources.some((s) => s.level === level)) return level;
  }
  return sources.length > 0 ? 'described' : 'none';
}

// worst joins the runs: for each case the most severe result, and the number of runs with that verdict.
function worst(runs) {
  const cases = new Map();
  for (const run of runs) {
    for (const result of run.results) {
      const before = cases.get(result.slug);
      if (!before || weights.indexOf(result.verdict) > weights.indexOf(before.verdict)) {
        cases.set(result.slug, { verdict: result.verdict, times: 1, of: runs.length, result });
      } else if (before.verdict === result.verdict) {
        before.times += 1;
      }
    }
  }
  return cases;
}

// languages maps a set-up's program to the language of its server. The default is JavaScript.
const languages = { redo: 'Go', 'fiber-v2': 'Go', 'fiber-v3': 'Go', restate: 'Rust', python: 'Python', ruby: 'Ruby' };

// versions returns the versions of the set-up's parts, from its lock file, its list or its notes.
function versions(name) {
  const program = programs.get(name);
  if (program === 'redo') return 'this repository';
  const read = (file) => fs.readFileSync(path.join(here, program, file), 'utf8');
  if (program.startsWith('fiber')) {
    return [...read('go.mod').matchAll(/(github\.com\/(?:gofiber\/fiber|valyala\/fasthttp)\S*) (v\S+)/g)].map(([, m, v]) => `${m} ${v}`).join(', ');
  }
  const { made_of: parts } = notesOf(name);
  if (parts) return parts;
  const { dependencies } = JSON.parse(read('package.json'));
  return Object.entries(dependencies).map(([m, v]) => `${m} ${v}`).join(', ');
}

// notesOf reads "- `slug`, `slug`: text" and "- setup: text" from a notes.md. Indented lines below continue the text.
function notesOf(name) {
  const file = path.join(here, name, 'notes.md');
  const notes = { setup: '', made_of: '', of: [] };
  if (!fs.existsSync(file)) return notes;
  const items = fs.readFileSync(file, 'utf8').split(/^- /m).slice(1);
  for (const item of items) {
    const colon = item.indexOf(':');
    const head = item.slice(0, colon);
    // {name} is the letter of another set-up.
    const text = item.slice(colon + 1).replace(/\s+/g, ' ').trim().replace(/\{([a-z0-9_-]+)\}/g, (all, other) => {
      return programs.has(other) ? letter(names.indexOf(other)) : all;
    });
    if (head === 'setup' || head === 'made_of') notes[head] = text;
    else notes.of.push({ slugs: [...head.matchAll(/`([^`]+)`/g)].map((m) => m[1]), text });
  }
  return notes;
}

const targets = names.map((name, i) => {
  const runs = runsOf(name);
  return { name, letter: letter(i), runs, report: runs[0], cases: worst(runs), notes: notesOf(name) };
});

// The broken rules and the rules with notes have to be the same.
const wrong = [];
for (const t of targets) {
  const found = [...t.cases].filter(([, c]) => broken(c.verdict)).map(([slug]) => slug);
  for (const [slug, c] of t.cases) {
    if (c.verdict === 'harness' || c.verdict === 'inconclusive') wrong.push(`${t.name}: ${slug} is ${c.verdict}: run it again`);
  }
  const told = t.notes.of.flatMap((n) => n.slugs);
  for (const slug of found) if (!told.includes(slug)) wrong.push(`${t.name}: ${slug} is broken, and its notes.md does not say why`);
  for (const slug of told) if (!found.includes(slug)) wrong.push(`${t.name}: notes.md explains ${slug}, which is not broken`);
}
if (wrong.length > 0) {
  console.error(wrong.join('\n'));
  process.exit(1);
}

const out = [];
const days = [...new Set(targets.flatMap((t) => t.runs.map((r) => r.started.slice(0, 10))))].sort();
const times = Math.min(...targets.map((t) => t.runs.length));
out.push(`Run on ${days.join(' and ')}, ${times === 1 ? 'once' : `${times} times`} each.`, '');
out.push('| Setup | Server | Language | Versions | Profile | Passed | Failed | Warned |', '|---|---|---|---|---|---|---|---|');
for (const t of targets) {
  const count = (v) => [...t.cases.values()].filter((c) => c.verdict === v).length;
  out.push(`| ${t.letter} | ${t.report.target} | ${languages[programs.get(t.name)] ?? 'JavaScript'} | ${versions(t.name)} | ${t.report.profile} | ${count('pass')} | ${count('fail')} | ${count('warn')} |`);
}
out.push('', `| Case | Here | Elsewhere | ${targets.map((t) => t.letter).join(' | ')} |`, `|---|---|---|${targets.map(() => '---').join('|')}|`);
// The report with redo's own profile has every case.
const order = targets.at(-1).report.results;
for (const result of order) {
  const cells = targets.map((t) => {
    const c = t.cases.get(result.slug);
    if (!c) return '';
    const some = broken(c.verdict) && c.times < c.of ? ` (${c.times} of ${c.of})` : '';
    return `${signs[c.verdict]}${some}`;
  });
  const level = outside(result);
  out.push(`| ${result.slug} | ${result.level} | ${level} | ${cells.join(' | ')} |`);
}
for (const t of targets.filter((x) => x.notes.setup)) {
  out.push('', `### ${t.letter}: ${t.report.target}`, '', t.notes.setup, '');
  const level = (slug) => t.report.results.find((r) => r.slug === slug);
  for (const n of t.notes.of) {
    const verdicts = n.slugs.map((slug) => {
      const r = level(slug);
      const elsewhere = outside(r);
      return `\`${slug}\` (${t.cases.get(slug).verdict}; ${r.level} here, elsewhere ${elsewhere})`;
    });
    out.push(`- ${verdicts.join(', ')}: ${n.text}`);
  }
}

const begin = '<!-- written by conformance/targets/matrix.mjs: begin -->';
const end = '<!-- end -->';
const text = fs.readFileSync(page, 'utf8');
const from = text.indexOf(begin);
const to = text.indexOf(end);
if (from < 0 || to < from) throw new Error(`docs/conformance.md has no markers`);
fs.writeFileSync(page, `${text.slice(0, from)}${begin}\n\n${out.join('\n')}\n\n${text.slice(to)}`);

// The page of the runs has the most severe results too, each with its requests and responses.
const worstFile = path.join(reportsDir, '..', 'worst.json');
fs.writeFileSync(worstFile, JSON.stringify(targets.map((t) => ({ ...t.report, results: [...t.cases.values()].map((c) => c.result) }))));
const html = path.join(reportsDir, '..', 'matrix.html');
execFileSync(path.join(reportsDir, '..', 'redo'), ['report', worstFile, '--output', html]);
console.log(`the wire evidence of every cell is in ${path.relative(process.cwd(), html)}`);
