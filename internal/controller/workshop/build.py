# Makes a virtual environment, on top of what the image has, in the folder that is
# the first argument. Why it could not be made is written to the file that is the
# second. The note, by which others know that all of it is there, comes last.
import glob, hashlib, json, os, platform, re, shutil, subprocess, sys, sysconfig

FOLDER, WORDS = sys.argv[1:3]
WANTED = os.environ.get("MUSTER_PYTHON", "")
REQUIREMENTS = os.environ["MUSTER_REQUIREMENTS"]
PACKAGES = os.environ.get("MUSTER_PACKAGES", "")
TEMPORARY = os.environ.get("TMPDIR", "/tmp")
NETRC = os.environ.get("MUSTER_NETRC", "")
PASSWORDS = []
MOST = int(os.environ.get("MUSTER_MOST", "0"))
PYTHON = os.path.join(FOLDER, "bin", "python")
VERSION = platform.python_version()


def hidden(text):
    """The text without the passwords of the netrc, which a package may print."""
    for word in PASSWORDS:
        text = text.replace(word, "****")
    return text


def fail(text):
    text = hidden(text)
    print(text, flush=True)
    raw = text.encode("utf-8", "replace")[:2000].decode("utf-8", "ignore")
    with open(WORDS, "w", encoding="utf-8") as out:
        out.write(raw)
    sys.exit(1)


def run(*command):
    """Runs a program and passes its words on; returns how it ended, and of its
    words those that matter: from its first error on, or else the last."""
    last, trouble = [], []
    made = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, errors="replace")
    for line in made.stdout:
        line = hidden(line)
        print(line, end="", flush=True)
        line = line.strip()
        if not line or line.startswith(("[notice]", "WARNING:", "note:", "hint:")):
            continue
        last = (last + [line])[-8:]
        if trouble or line.lower().startswith("error:") or line.startswith("The conflict is caused by:"):
            trouble = (trouble + [line])[:14]
    return made.wait(), "\n".join(trouble or last)


def plain(text):
    return re.sub("[^0-9A-Za-z_.+!=-]", "_", text)[:256]


def origin(info):
    """What a package is that comes from a place of its own, since its version does not
    say that: by what was fetched from there, or else by the place."""
    try:
        with open(os.path.join(info, "direct_url.json"), encoding="utf-8") as file:
            said = json.load(file)
    except (OSError, ValueError):
        return ""
    archive = said.get("archive_info", {})
    hashes = ["%s=%s" % pair for pair in sorted(archive.get("hashes", {}).items())]
    place = "url=" + hashlib.sha256(said.get("url", "").encode("utf-8")).hexdigest()
    return " @ " + plain(said.get("vcs_info", {}).get("commit_id") or archive.get("hash") or "".join(hashes[:1]) or place)


def installed():
    """The packages of the environment, without those of the image; None: too many."""
    found = glob.glob(os.path.join(glob.escape(FOLDER), "lib", "python3*", "site-packages", "*.dist-info"))
    names = sorted(plain(os.path.basename(info)[: -len(".dist-info")]) + origin(info) for info in found)
    return names if len(names) <= 4096 else None


if WANTED and VERSION != WANTED and not VERSION.startswith(WANTED + "."):
    fail("the image has Python %s, and the job asks for %s: name an image that has it, or leave the version out" % (VERSION, WANTED))

code, words = run(sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", FOLDER)
if code:
    fail("making a virtual environment with the image's Python %s: %s" % (VERSION, words))
if sys.prefix != sys.base_prefix:
    # The image's Python is that of a virtual environment: what it has is seen, too.
    libraries = sysconfig.get_path("purelib", "posix_prefix", vars={"base": FOLDER, "platbase": FOLDER})
    with open(os.path.join(libraries, "muster_image.pth"), "w", encoding="utf-8") as out:
        out.write(sysconfig.get_path("purelib") + "\n")

pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-input"]
if subprocess.call(pip + ["--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
    code, words = run(PYTHON, "-m", "ensurepip")
    if code:
        fail("the image has neither pip nor ensurepip for its Python %s: install one into it, or name an image that has it\n%s" % (VERSION, words))
if NETRC:
    # pip and git read it in the home folder, which is this container's own.
    try:
        with open(NETRC, encoding="utf-8") as file:
            secret = file.read()
    except OSError:
        fail("there is no Secret %s with the key netrc in this namespace, which environment.indexSecret names: create it, for example with: kubectl create secret generic %s --from-file=netrc=FILE" % ((os.environ.get("MUSTER_SECRET", ""),) * 2))
    # A word in quotation marks may have spaces.
    words = re.findall(r'"(?:\\.|[^"\\\n])*"|\S+', secret)
    for before, word in zip(words, words[1:]):
        if before in ("password", "account"):
            bare = word.strip('"')
            PASSWORDS += [w for w in (word, bare, re.sub(r"\\(.)", r"\1", bare)) if len(w) >= 4]
    # The longest come first: another password may be the beginning of one.
    PASSWORDS.sort(key=len, reverse=True)
    with open(os.open(os.path.expanduser("~/.netrc"), os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8") as out:
        out.write(secret)
if PACKAGES:
    # Packages of the code are for reading, and builds write beside their source. The
    # requirements name the copies, by paths in the folder for temporary files.
    os.chdir(TEMPORARY)
    shutil.copytree(PACKAGES, "packages", symlinks=True)
    for at, _, _ in os.walk("packages"):
        os.chmod(at, 0o755)
if REQUIREMENTS.strip():
    lines = REQUIREMENTS.splitlines(True)
    parts = [("-r", [line for line in lines if not line.startswith("-c ")]), ("-c", [line[3:] for line in lines if line.startswith("-c ")])]
    listed = []
    for option, part in parts:
        if part or option == "-r":
            listed += [option, os.path.join(TEMPORARY, "list" + option + ".txt")]
            with open(listed[-1], "w", encoding="utf-8") as out:
                out.writelines(part)
    code, words = run(*pip, "install", "--no-cache-dir", "--progress-bar", "off", "--no-color", *listed)
    if code:
        fail("installing the requirements: " + words)

size = sum(os.lstat(os.path.join(at, name)).st_size for at, _, names in os.walk(FOLDER) for name in names)
if size > MOST > 0:
    fail("the environment has %.1f GiB, and the store of this cluster takes %.1f GiB of a namespace: ask for less, or put the large packages into the image" % (size / 2**30, MOST / 2**30))

note = os.path.join(FOLDER, ".muster-environment.json")
with open(note + ".new", "w", encoding="utf-8") as out:
    json.dump({"python": VERSION, "platform": plain(sysconfig.get_platform()), "packages": installed(), "searchPath": os.environ.get("PATH", "")}, out)
os.rename(note + ".new", note)
