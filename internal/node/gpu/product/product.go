// Package product makes the short name of a model, as people write it, of a
// driver's product name or of the label that a cluster has for it.
//
// It must not know who asks.
package product

import (
	"regexp"
	"strings"
)

var (
	// makers and families say who made a device or for what market, and are
	// not part of the name people use.
	makers = map[string]bool{"NVIDIA": true, "GRID": true, "TESLA": true, "QUADRO": true, "GRAPHICS": true, "DEVICE": true, "GENERATION": true}
	// variants say how a device is mounted, cooled or cut down.
	variants = regexp.MustCompile(`^(SXM\d*|PCIE|PG\d+|NVL\d*|HBM\d*[A-Z]*|MIG|\d+\s*[GM]I?B|LAPTOP|MOBILE|MAX-Q|WITH|DESIGN|BLACKWELL|ADA|SERVER|WORKSTATION|EDITION|ACCELERATOR)$`)
	// suffixes belong to the name that they follow.
	suffixes = map[string]bool{"TI": true, "SUPER": true, "D": true}
	bareSize = regexp.MustCompile(`^\d{4}$`)
	// professional devices carry a letter and a number behind "RTX".
	professional = regexp.MustCompile(`^A\d+$`)
)

// Model makes the short model name that people ask for of a driver's
// product name. The rule:
//
//  1. Split at blanks, hyphens and underscores, and write in capitals.
//  2. Leave out the maker and the line ("NVIDIA", "Tesla", "Quadro", "GeForce"),
//     the way of mounting ("SXM4", "PCIe", "NVL"), memory sizes ("80GB"), and
//     words such as "Laptop GPU", "Generation" and "Edition".
//  3. The first word that is left is the model: "A100", "H200", "V100", "L40S".
//  4. "RTX", "GTX" and "TITAN" take the next word along, without blank, and
//     "Ti" and "SUPER" after it: "RTX4090", "GTX1080TI", "TITANV". RTX before
//     an A-number is left out: "NVIDIA RTX A6000" is "A6000". "Ada" after an
//     RTX number is kept, as it is another device: "RTX6000ADA". "RTX PRO"
//     takes its number: "RTXPRO6000".
//  5. "GH200" and its like, a processor and a GPU in one, stay as they are.
//
// A name of which nothing is left gives its own capitals without blanks; an
// empty name gives "GPU".
func Model(product string) string {
	words := strings.FieldsFunc(strings.ToUpper(product), func(r rune) bool { return r == ' ' || r == '-' || r == '_' || r == '/' })
	var left []string
	ada := false
	for _, w := range words {
		ada = ada || w == "ADA"
		if makers[w] || w == "GEFORCE" || w == "GPU" || variants.MatchString(w) {
			continue
		}
		left = append(left, w)
	}
	switch {
	case len(words) == 0:
		return "GPU"
	case len(left) == 0:
		return strings.Join(words, "")
	}
	line := left[0]
	if (line != "RTX" && line != "GTX" && line != "TITAN") || len(left) == 1 {
		return line
	}
	if line == "RTX" && professional.MatchString(left[1]) {
		return left[1]
	}
	name, rest := line+left[1], left[2:]
	if left[1] == "PRO" && len(rest) > 0 {
		name, rest = name+rest[0], rest[1:]
	}
	for _, w := range rest {
		if !suffixes[w] {
			break
		}
		name += w
	}
	if ada && line == "RTX" && bareSize.MatchString(left[1]) {
		name += "ADA"
	}
	return name
}
