package conformance

import (
	"slices"
	"strings"
)

// selectCases returns the selected cases with their prerequisites, in the order of Cases.
func selectCases(all []Case, s *settings) ([]Case, error) {
	bySlug := map[string]Case{}
	known := map[string]bool{}
	for _, c := range all {
		bySlug[c.Slug] = c
		known[c.Slug], known[c.Group()] = true, true
	}
	var unknown []string
	for _, list := range [][]string{s.only, s.except, sortedKeys(s.expected)} {
		for _, slug := range list {
			if !known[slug] {
				unknown = append(unknown, excerpt(slug))
			}
		}
	}
	for _, slug := range sortedKeys(s.expected) {
		if _, ok := bySlug[slug]; known[slug] && !ok {
			unknown = append(unknown, slug+" (a group: list each expected failure)")
		}
	}
	if len(unknown) > 0 {
		return nil, configError("there is no case %s", strings.Join(unknown, ", "))
	}
	picked := map[string]bool{}
	var pick func(c Case)
	pick = func(c Case) {
		if picked[c.Slug] {
			return
		}
		picked[c.Slug] = true
		for _, slug := range c.prerequisites() {
			pick(bySlug[slug])
		}
	}
	for _, c := range all {
		named := func(slug string) bool { return slug == c.Slug || slug == c.Group() }
		if (len(s.only) == 0 || slices.ContainsFunc(s.only, named)) && !slices.ContainsFunc(s.except, named) {
			pick(c)
		}
	}
	if len(picked) == 0 {
		return nil, configError("no case is selected")
	}
	for _, c := range controlCases {
		pick(c) // the other cases use their findings
	}
	return slices.DeleteFunc(slices.Clone(all), func(c Case) bool { return !picked[c.Slug] }), nil
}

// layers sorts the cases into layers. Each case is above its prerequisites, and all are above the controls. The
// cases of one layer may run at the same time.
func layers(cases []Case) [][]Case {
	depth := map[string]int{}
	bySlug := map[string]Case{}
	for _, c := range cases {
		bySlug[c.Slug] = c
	}
	var measure func(slug string) int
	measure = func(slug string) int {
		if d, ok := depth[slug]; ok {
			return d
		}
		d := 0
		below := bySlug[slug].prerequisites()
		switch {
		case bySlug[slug].Group() != "ctl":
			below = append(below, slugOracle)
		case slug == slugOracle:
			below = append(below, slugDistinct) // it uses the counter
		}
		for _, below := range below {
			if _, ok := bySlug[below]; ok {
				d = max(d, measure(below)+1)
			}
		}
		depth[slug] = d
		return d
	}
	var sorted [][]Case
	for _, c := range cases {
		d := measure(c.Slug)
		for len(sorted) <= d {
			sorted = append(sorted, nil)
		}
		sorted[d] = append(sorted[d], c)
	}
	return sorted
}
