# SIGTERM for the processes of this container that its first process does not
# pass it on to: the descendants of shells, and of programs without a handler.
#
# The first process must not end before them: the runtime would kill them all,
# and this hook too, which the kubelet reports as FailedPreStopHook. So the hook
# stops that process, and a process of its own lets it go on once they have
# ended; the kubelet bounds that by the grace period. SIGSTOP has no effect on
# process 1 of a container with its own process namespace: there the hook waits.
# It does not wait for a process that it may not signal, as one of another user.
read -r own </proc/self/cgroup
seen=" $$ " over=' ' asked='' held='' one='' more=1
while [ "$more" ]; do
more=
for d in /proc/[0-9]*; do
q=${d#/proc/} n='' p='' c='' g=''
case $seen in *" $q "*) continue;; esac
{ while read -r k v _; do case $k in Name:) n=$v;; PPid:) p=$v;; SigCgt:) c=$v;; esac; done <"$d/status"; read -r g <"$d/cgroup"; } 2>/dev/null
[ "$g" = "$own" ] || continue
case $over in *" $p "*) kill -TERM "$q" && asked="$asked $q";; *) [ "$p" = 0 ] || continue;; esac
seen="$seen$q " more=1
case $n in sh|ash|bash|dash|ksh|zsh|busybox) ;; *) case $c in *[4-7c-f]???) continue;; esac;; esac
over="$over$q "
case $p$q in 01) one=1;; 0*) kill -STOP "$q"; held="$held $q";; esac
done
done
runs() { s=Z; while read -r k v _; do case $k in State:) s=$v;; esac; done <"/proc/$1/status"; case $s in [ZX]) return 1;; esac; }
end() { for q in $asked; do while runs "$q"; do sleep 0.2 || sleep 1; done; done; for q in $held; do kill -CONT "$q"; done; }
if [ "$one" ]; then end 2>/dev/null; else (end) >/dev/null 2>&1 </dev/null & fi
