package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Synthetic describes a made-up workload. It resembles what is known of
// clusters for deep learning: nearly all jobs ask for one GPU, a few large
// gangs need much of the GPU time, run times reach from seconds to weeks, a
// third of the jobs fail early, most are submitted by day, half of them by one
// of twelve queues, and owners run the same thing again and again.
type Synthetic struct {
	// Jobs is how many there are.
	Jobs int
	// Cluster is what they are meant for; only gangs that fit are made.
	Cluster ClusterSpec
	// Load is how much of the cluster they need while they arrive; the span of
	// the submissions is chosen accordingly.
	Load float64
	// Seed makes another workload of the same kind.
	Seed uint64
}

// maxSynthetic is how many jobs are made at most.
const maxSynthetic = 5_000_000

// sizes and their weights out of ten thousand.
var syntheticSizes = []struct{ gpus, weight int }{
	{1, 9400}, {2, 180}, {4, 240}, {8, 150}, {16, 20}, {24, 3}, {32, 7},
}

// runQuantiles are the run times, in seconds, at equal steps of probability.
var runQuantiles = []int64{
	10, 45, 90, 150, 240, 390, 600, 840, 1_200, 1_750, 2_600, 3_900, 5_600,
	8_200, 12_500, 19_000, 32_000, 58_000, 105_000, 220_000, 900_000,
}

// byHour weighs the hours of a day for submissions.
var byHour = []int{3, 2, 2, 2, 2, 3, 4, 5, 7, 9, 10, 10, 9, 9, 10, 10, 10, 9, 8, 7, 6, 5, 5, 4}

// queueWeights say how busy the queues are.
var queueWeights = []int{500, 150, 140, 110, 30, 20, 15, 12, 10, 6, 4, 3}

// habit is something that a user runs again and again.
type habit struct {
	queue, user, name string
	gpus              int
	run               int64 // seconds
}

// Generate makes the workload. The same Synthetic gives the same jobs.
func (s Synthetic) Generate() ([]Job, error) {
	if s.Jobs < 1 || s.Jobs > maxSynthetic {
		return nil, fmt.Errorf("a synthetic trace of %d jobs: allowed are 1 to %d", s.Jobs, maxSynthetic)
	}
	if !(s.Load >= 0.01 && s.Load <= 100) {
		return nil, fmt.Errorf("a synthetic trace of load %v: allowed is 0.01 to 100; 1 needs the whole cluster", s.Load)
	}
	if err := s.Cluster.Validate(); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(s.Seed, 0x73796e74686574))
	habits := s.habits(random)
	jobs := make([]Job, s.Jobs)
	for i := range jobs {
		h := &habits[random.IntN(len(habits))]
		run := h.run * int64(60+random.IntN(81)) / 100
		if random.IntN(3) == 0 {
			run = run * int64(1+random.IntN(20)) / 100
		}
		jobs[i] = Job{Run: Micros(max(run, 1)) * Second, GPUs: h.gpus, Queue: h.queue, User: h.user, Name: h.name}
	}
	s.submit(random, jobs)
	return jobs, nil
}

// habits are drawn once, about one for every twelve jobs.
func (s Synthetic) habits(random *rand.Rand) []habit {
	habits := make([]habit, max(1, s.Jobs/12))
	for i := range habits {
		queue := weighted(random, queueWeights)
		user := random.IntN(3 + queueWeights[queue]/10)
		h := &habits[i]
		h.queue = fmt.Sprintf("queue-%02d", queue+1)
		h.user = fmt.Sprintf("user-%02d-%02d", queue+1, user+1)
		h.name = fmt.Sprintf("experiment-%d", i+1)
		h.gpus = 1
		pick := random.IntN(10_000)
		for _, size := range syntheticSizes {
			if pick < size.weight {
				if s.Cluster.Fits(size.gpus) {
					h.gpus = size.gpus
				}
				break
			}
			pick -= size.weight
		}
		// Between two quantiles every run time is as likely as the next.
		step := random.IntN(len(runQuantiles) - 1)
		h.run = runQuantiles[step] + random.Int64N(runQuantiles[step+1]-runQuantiles[step])
	}
	return habits
}

// submit spreads the jobs over as many whole hours as the load asks for.
func (s Synthetic) submit(random *rand.Rand, jobs []Job) {
	span := Work(jobs) / (s.Load * float64(s.Cluster.GPUs()))
	hours := max(1, int64(span/float64(Hour)))
	whole := hours / 24 * 24
	times := make([]Micros, len(jobs))
	for i := range times {
		// What is beyond the last whole day is submitted evenly.
		hour := random.Int64N(hours)
		if hour < whole {
			hour = hour/24*24 + int64(weighted(random, byHour))
		}
		times[i] = Micros(hour)*Hour + Micros(random.Int64N(3600))*Second
	}
	slices.Sort(times)
	for i := range jobs {
		jobs[i].ID, jobs[i].Submit = i, times[i]
	}
}

// weighted draws a place in weights.
func weighted(random *rand.Rand, weights []int) int {
	sum := 0
	for _, weight := range weights {
		sum += weight
	}
	pick := random.IntN(sum)
	for i, weight := range weights {
		if pick < weight {
			return i
		}
		pick -= weight
	}
	return len(weights) - 1
}
