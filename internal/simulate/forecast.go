package simulate

import (
	"math"
	"slices"
)

// Forecaster is a policy that can say when a job that waits will start.
type Forecaster interface {
	Policy
	// Forecast returns the range in which it expects the job to start for the
	// first time; false if it cannot say. It is asked after Decide, and
	// changes nothing that decides.
	Forecast(now Micros, job *Job) (from, to Micros, ok bool)
}

// Forecast is what was said of one job.
type Forecast struct {
	// Job is its number.
	Job int
	// At is when it was said, From and To the range.
	At, From, To Micros
}

// Foresight is how good the forecasts of a replay were.
type Foresight struct {
	// Asked is how many jobs were asked about: every so many of those that had
	// to wait, when they arrived. Answered is for how many a range was given.
	Asked    int `json:"asked"`
	Answered int `json:"answered"`
	// Within is the percentage of true first starts inside the range, and
	// Below and Above of those before and after it.
	Within float64 `json:"withinPercent"`
	Below  float64 `json:"belowPercent"`
	Above  float64 `json:"abovePercent"`
	// Width is the end of the range over its beginning, both as waits of at
	// least a minute: the median, the mean of the logarithms and the 90th
	// percentile over all answers.
	P50Width  float64 `json:"p50Width"`
	MeanWidth float64 `json:"meanWidth"`
	P90Width  float64 `json:"p90Width"`
	// Classes are the same by size class.
	Classes []ClassForesight `json:"classes,omitempty"`
}

// ClassForesight is the foresight for one size class.
type ClassForesight struct {
	GPUs string `json:"gpus"`
	Foresight
}

// forecasts asks a policy about the jobs that have to wait.
type forecasts struct {
	every int
	seen  int
	asked int
	fresh []int
	given []Forecast
}

// arrive notes a job that is new.
func (f *forecasts) arrive(job int) {
	if f.every > 0 {
		f.fresh = append(f.fresh, job)
	}
}

// ask asks about every so many of the new jobs that were not started at once.
func (f *forecasts) ask(now Micros, policy Policy, jobs []Job, waits func(job int) bool) {
	forecaster, ok := policy.(Forecaster)
	for _, id := range f.fresh {
		if !ok || !waits(id) {
			continue
		}
		if f.seen++; f.seen%f.every != 0 {
			continue
		}
		f.asked++
		if from, to, said := forecaster.Forecast(now, &jobs[id]); said {
			f.given = append(f.given, Forecast{Job: id, At: now, From: from, To: to})
		}
	}
	f.fresh = f.fresh[:0]
}

// MeasureForesight compares what was said with what came; nil if nothing was
// asked.
func MeasureForesight(outcome *Outcome) *Foresight {
	if outcome.ForecastsAsked == 0 {
		return nil
	}
	whole := foresight(outcome, outcome.Forecasts)
	whole.Asked = outcome.ForecastsAsked
	for _, class := range Classes() {
		part := slices.DeleteFunc(slices.Clone(outcome.Forecasts), func(f Forecast) bool {
			gpus := outcome.Jobs[f.Job].GPUs
			return gpus < class.From || gpus > class.To
		})
		if len(part) > 0 && len(part) < len(outcome.Forecasts) {
			one := foresight(outcome, part)
			one.Asked = len(part)
			whole.Classes = append(whole.Classes, ClassForesight{GPUs: class.Name, Foresight: one})
		}
	}
	return &whole
}

func foresight(outcome *Outcome, given []Forecast) Foresight {
	out := Foresight{Answered: len(given)}
	if len(given) == 0 {
		return out
	}
	var widths []float64
	below, above, logs := 0, 0, 0.0
	for _, f := range given {
		start := outcome.FirstStart[f.Job]
		wait := max(start-f.At, Minute)
		from, to := max(f.From-f.At, Minute), max(f.To-f.At, Minute)
		switch {
		case wait < from:
			below++
		case wait > to:
			above++
		}
		width := float64(to) / float64(from)
		widths = append(widths, width)
		logs += math.Log(width)
	}
	slices.Sort(widths)
	n := float64(len(given))
	out.Below, out.Above = rounded(100*float64(below)/n), rounded(100*float64(above)/n)
	out.Within = rounded(100 - 100*float64(below+above)/n)
	out.P50Width, out.P90Width = rounded(widths[(len(widths)-1)/2]), rounded(widths[(len(widths)-1)*9/10])
	out.MeanWidth = rounded(math.Exp(logs / n))
	return out
}
