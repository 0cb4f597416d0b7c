package fencing_test

import (
	"fmt"

	"github.com/muster-dev/muster/internal/fencing"
)

// kind is what happened.
type kind uint8

const (
	crashes kind = iota
	learns
	takes
	takesLost
	listsAll
	sendsStamp
	seesAdopted
	stampsPod
	settles
	saysWord
	wordLands
	showsGang
	showsPlacements
	showsPod
	plans
	checks
	drops
	sendsPlacement
	losesAnswer
	plansPod
	checksPod
	dropsPod
	sendsBinding
	createArrives
	createAnswered
	stampArrives
	podArrives
	bindingArrives
	forgets
	sees
	readsFence
	findsVerdict
	findsSpent
	accepts
	sendsPod
	passesOver
	marks
	frees
	deletes
	fails
	finishes
	findsNone
	released
	removes
	admits
	starts
	foreignStarts
	foreignEnds
	firstOfGrowth // and those of growth_test.go
)

func gangName(g int) string { return string(rune('A' + g)) }

func memberName(g, i int) string { return fmt.Sprintf("member %s-%d", gangName(g), i) }

// String is the step in words.
func (l label) String() string {
	if l.kind >= firstOfGrowth {
		return l.growth()
	}
	s := fmt.Sprintf("scheduler %d", l.a+1)
	g := gangName(int(l.a))
	of := gangName(int(l.b)) // where l.a is a scheduler
	m := memberName(int(l.a), int(l.b))
	p := fmt.Sprintf("placement %s-%d", g, l.b)
	words := map[kind]string{
		crashes:         fmt.Sprintf("%s (epoch %d) crashes", s, l.b),
		learns:          fmt.Sprintf("%s (epoch %d) learns that it has been replaced, and stands down", s, l.b),
		takes:           fmt.Sprintf("%s%s moves the fence on to epoch %d", s, [2]string{"", " of the version before"}[l.c&1], l.b),
		takesLost:       fmt.Sprintf("%s moves the fence on to epoch %d, and the answer is lost", s, l.b),
		listsAll:        fmt.Sprintf("%s (epoch %d) lists all placements", s, l.b),
		sendsStamp:      fmt.Sprintf("%s sends its stamp for placement %s-%d", s, of, l.c),
		seesAdopted:     fmt.Sprintf("%s sees that placement %s-%d is adopted, void or gone", s, of, l.c),
		stampsPod:       fmt.Sprintf("%s (epoch %d) stamps the foreign pod, or sees where it is bound", s, l.b),
		settles:         fmt.Sprintf("%s settles epoch %d", s, l.b),
		saysWord:        fmt.Sprintf("%s (epoch %d) ends, and says that it hands over in order", s, l.b),
		wordLands:       fmt.Sprintf("the word that epoch %d was handed over in order arrives", l.a),
		showsGang:       fmt.Sprintf("the cache of %s shows gang %s as it is", s, of),
		showsPlacements: fmt.Sprintf("the cache of %s shows the placements of gang %s as they are", s, of),
		showsPod:        fmt.Sprintf("the cache of %s shows the foreign pod as it is", s),
		plans:           fmt.Sprintf("%s plans attempt %d of gang %s", s, l.c, of),
		checks:          fmt.Sprintf("%s checks the fence and gang %s, and may write placement %s-%d", s, of, of, l.c),
		drops:           fmt.Sprintf("%s drops the plan of attempt %d of gang %s: the gang was changed", s, l.c, of),
		sendsPlacement:  fmt.Sprintf("%s sends placement %s-%d", s, of, l.c),
		losesAnswer:     fmt.Sprintf("%s hears nothing of placement %s-%d", s, of, l.c),
		plansPod:        fmt.Sprintf("%s plans the foreign pod on device %d", s, l.b),
		checksPod:       s + " checks the fence, and may bind the foreign pod",
		dropsPod:        s + " drops the plan of the foreign pod: the pod was changed",
		sendsBinding:    fmt.Sprintf("%s sends the binding of the foreign pod to device %d", s, l.b),
		createArrives:   fmt.Sprintf("%s of epoch %d arrives, and the answer is lost", p, l.c),
		createAnswered:  fmt.Sprintf("%s of epoch %d arrives, and is answered", p, l.c),
		stampArrives:    fmt.Sprintf("the stamp of epoch %d for %s arrives", l.c, p),
		podArrives:      fmt.Sprintf("the pod of %s, attempt %d, arrives", m, l.c),
		bindingArrives:  fmt.Sprintf("the binding of the foreign pod to device %d, of epoch %d, arrives", l.a, l.b),
		forgets:         fmt.Sprintf("the controller of gang %s begins anew", g),
		sees:            fmt.Sprintf("the controller sees %s with epoch %d", p, l.c),
		readsFence:      fmt.Sprintf("the controller of gang %s reads the fence: epoch %d, settled %d, closed %d", g, l.b, l.c>>4, l.c&15),
		findsVerdict:    fmt.Sprintf("the controller finds %s %s", p, fencing.Verdict(l.c)),
		findsSpent:      fmt.Sprintf("the controller finds %s spent", p),
		accepts:         fmt.Sprintf("gang %s accepts attempt %d", g, l.b),
		sendsPod:        fmt.Sprintf("the controller sends the pod of %s, attempt %d", m, l.c),
		passesOver:      fmt.Sprintf("gang %s passes over attempt %d", g, l.b),
		marks:           p + " is marked",
		frees:           p + " is gone",
		deletes:         fmt.Sprintf("the pod of %s, attempt %d, is deleted", m, l.c),
		fails:           fmt.Sprintf("attempt %d of gang %s fails, and drains", l.b, g),
		finishes:        fmt.Sprintf("attempt %d of gang %s succeeds, and drains", l.b, g),
		findsNone:       fmt.Sprintf("the controller finds no pod of gang %s", g),
		released:        fmt.Sprintf("gang %s holds nothing any more", g),
		removes:         fmt.Sprintf("the node stops %s, attempt %d, and its pod is gone", m, l.c),
		starts:          fmt.Sprintf("the node starts %s, attempt %d", m, l.c),
		foreignStarts:   "the node starts the foreign pod",
		foreignEnds:     "the foreign pod ends",
	}
	words[admits] = "the node admits " + m
	if l.c == ended {
		words[admits] = "the node refuses " + m
	}
	return words[l.kind]
}
