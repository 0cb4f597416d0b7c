package spark

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Settings are what the parts of an application are started with. They are read
// from a file, so that no secret is in a list of processes.
type Settings struct {
	// Master is where the master listens, as host:port, and Host this member's own
	// address.
	Master, Host string
	// Secret is the application's.
	Secret string
	// Pages is what a page would ask for. Nobody else knows it.
	Pages string
	// DriverHeap and ExecutorHeap are in MiB; 0 in a member that has no say in it.
	DriverHeap, ExecutorHeap int64
	// Scratch is a folder of the member.
	Scratch string
	// Apart says that members share no folder.
	Apart bool
	// Own says that each member has files of its own, even at an address that it shares
	// with others.
	Own bool
	// Leaves says that executors may go before the application is done.
	Leaves bool
}

// pagesFilter is what stands before the pages of master and worker: it wants a
// token that is signed by a key. Spark has no setting that turns these pages off.
const pagesFilter = "org.apache.spark.ui.JWSFilter"

// Properties are the settings as Spark reads them.
func (s *Settings) Properties() string {
	all := map[string]string{
		"spark.master": "spark://" + s.Master,
		// Everybody who connects knows the secret, and what is said is encrypted.
		"spark.authenticate":                        "true",
		"spark.authenticate.secret":                 s.Secret,
		"spark.network.crypto.enabled":              "true",
		"spark.network.crypto.saslFallback":         "false",
		"spark.ui.enabled":                          "false",
		"spark.ui.filters":                          pagesFilter,
		"spark." + pagesFilter + ".param.secretKey": s.Pages,
		"spark.master.rest.enabled":                 "false",
		"spark.shuffle.service.enabled":             "false",
		// Nothing listens but at the member's address.
		"spark.driver.host":        s.Host,
		"spark.driver.bindAddress": s.Host,
		// A commit says that an output is whole; files need not.
		"spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
		"spark.sql.warehouse.dir":         filepath.Join(s.Scratch, "warehouse"),
		"spark.ui.showConsoleProgress":    "false",
		"spark.driver.extraJavaOptions":   javaOptions(s.Scratch),
		"spark.executor.extraJavaOptions": perData + " -Djava.io.tmpdir=" + executorTmp,
	}
	if s.Apart {
		maps.Copy(all, apart)
	}
	if s.Own { // else who is at the same address is taken to see the same files
		all["spark.shuffle.readHostLocalDisk"] = "false"
	}
	if s.Leaves {
		maps.Copy(all, leaving)
		all["spark.eventLog.dir"] = "file://" + s.events()
	}
	if s.DriverHeap > 0 {
		all["spark.driver.memory"] = fmt.Sprintf("%dm", s.DriverHeap)
	}
	if s.ExecutorHeap > 0 {
		all["spark.executor.memory"] = fmt.Sprintf("%dm", s.ExecutorHeap)
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		// As java.util.Properties has it: a backslash stands for what follows.
		fmt.Fprintf(&text, "%s %s\n", name, strings.ReplaceAll(all[name], `\`, `\\`))
	}
	return text.String()
}

// apart is how each file is written once, and stays with who wrote it: by the second
// algorithm a task that commits moves its files to their place itself, in its member's
// own folder, and the driver does not look for them. A task is not run again for what
// it may have written by itself: the script is.
var apart = map[string]string{
	"spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
	"spark.speculation":      "false",
	"spark.task.maxFailures": "1",
}

// leaving is how an executor goes that is given back: sent SIGPWR, it takes no more
// tasks, ends those that it has, and brings to others what their tasks will read. Where
// something was not brought, tasks would run again whose files are there already, or half
// there: the application is given up at the first that misses it, and what became of each
// task is noted ([repeated]).
var leaving = map[string]string{
	"spark.decommission.enabled":                               "true",
	"spark.storage.decommission.enabled":                       "true",
	"spark.storage.decommission.rddBlocks.enabled":             "true",
	"spark.storage.decommission.shuffleBlocks.enabled":         "true",
	"spark.storage.decommission.replicationReattemptInterval":  "2s", // or it stays for so long
	"spark.stage.maxConsecutiveAttempts":                       "1",
	"spark.stage.ignoreDecommissionFetchFailure":               "false",
	"spark.scheduler.listenerbus.eventqueue.eventLog.capacity": "100000", // what comes too fast is not noted
	"spark.eventLog.enabled":                                   "true",
	"spark.eventLog.rolling.enabled":                           "false",
	"spark.eventLog.compress":                                  "false",
}

// events is the folder where the driver notes what becomes of tasks.
func (s *Settings) events() string { return filepath.Join(s.Scratch, "events") }

const (
	// perData has a JVM write nothing of how it performs into the system's temporary
	// folder.
	perData = "-XX:-UsePerfData"
	// executorTmp is where executors unpack libraries: the driver, which says so, does
	// not know the scratch folders of other members, and an executor is started in a
	// folder of its own in the work folder of its member.
	executorTmp = "."
)

// javaOptions keep a JVM's own files out of folders that all share.
func javaOptions(scratch string) string {
	return perData + " -Djava.io.tmpdir=" + quoted(filepath.Join(scratch, "tmp"))
}

// quoted is a word as Spark's launcher splits options.
func quoted(word string) string {
	if !strings.ContainsAny(word, " '\"") {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}

// logging has Spark say what it warns of, on standard error; but not that members
// have not met yet, or that others have ended. WORKER is what its worker says.
const logging = `rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.master.name = org.apache.spark.deploy.master.Master
logger.master.level = error
logger.worker.name = org.apache.spark.deploy.worker.Worker
logger.worker.level = WORKER
`

// The names by which Spark looks for its files, in the folder of SPARK_CONF_DIR.
const (
	propertiesFile = "spark-defaults.conf"
	loggingFile    = "log4j2.properties"
)

// write writes the settings below the scratch folder, for their owner alone, and
// returns their folder.
func (s *Settings) write() (string, error) {
	folder := filepath.Join(s.Scratch, "conf")
	for _, dir := range []string{folder, filepath.Join(s.Scratch, "tmp"), filepath.Join(s.Scratch, "local"), filepath.Join(s.Scratch, "work"), s.events()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("making a folder of Spark's: %w", err)
		}
	}
	for name, text := range map[string]string{propertiesFile: s.Properties(), loggingFile: strings.Replace(logging, "WORKER", workerLevel(s.Leaves), 1)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("writing Spark's settings: %w", err)
		}
	}
	return folder, nil
}

// workerLevel is what a worker says: how its executors ended, where that counts.
func workerLevel(leaves bool) string {
	if leaves {
		return "info"
	}
	return "error"
}

// environ are the variables of everything that a member starts, after its own.
func (s *Settings) environ(own []string, i *Installation, conf, python string) ([]string, error) {
	java, err := adapt(i.JavaHome, s.Scratch)
	out := append(slices.Clone(own),
		"SPARK_HOME="+i.Home,
		"SPARK_CONF_DIR="+conf,
		"SPARK_LOCAL_IP="+s.Host, "SPARK_LOCAL_HOSTNAME="+s.Host, "SPARK_PUBLIC_DNS="+s.Host,
		"SPARK_LOCAL_DIRS="+filepath.Join(s.Scratch, "local"),
		fmt.Sprintf("SPARK_DAEMON_MEMORY=%dm", daemonHeap),
		// Both do little: what starts quickly and has few threads does best.
		"SPARK_DAEMON_JAVA_OPTS=-XX:+UseSerialGC -XX:TieredStopAtLevel=1 "+javaOptions(s.Scratch),
		// By its name: each member has the environment at a path of its own.
		"PYSPARK_PYTHON="+python, "PYSPARK_DRIVER_PYTHON="+python,
		"TMPDIR="+filepath.Join(s.Scratch, "tmp"),
	)
	if java != "" {
		out = append(out, "JAVA_HOME="+java)
	}
	return out, err
}
