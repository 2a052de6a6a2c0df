#!/bin/sh
# Runs a program on two ranks in each of two network namespaces, which are two nodes for MPI. Messages between them go
# over TCP through a pair of virtual network cards.
#   sh tests/mpi_ranks/two_nodes.sh MPIRUN PROGRAM ARGUMENTS...
# The last line has the number of bytes from one node to the other. Exit status: the program's, or 77 and the reason if
# the system has no such namespaces. The script removes all that it makes.

mpirun=$1
shift
here=milcgpu$$
one=192.0.2.1 # reserved for documentation, so no real network has it
other=192.0.2.2

no() {
    echo "no two nodes: $*"
    exit 77
}
[ "$(id -u)" -eq 0 ] || no "network namespaces need root"
for tool in ip unshare hostname; do
    command -v $tool >/dev/null 2>&1 || no "no $tool"
done

scratch=$(mktemp -d)
clean() {
    trap - EXIT
    for node in 1 2; do
        [ -e /run/netns/$here-$node ] || continue
        left=$(ip netns pids $here-$node)
        [ -z "$left" ] || kill -9 $left 2>/dev/null
        ip netns del $here-$node
    done
    rm -rf "$scratch"
}
trap clean EXIT
trap 'exit 1' INT TERM HUP PIPE

{
    ip netns add $here-1 && ip netns add $here-2 &&
        ip link add card netns $here-1 type veth peer name card netns $here-2 &&
        ip -n $here-1 addr add $one/24 dev card && ip -n $here-2 addr add $other/24 dev card &&
        ip -n $here-1 link set lo up && ip -n $here-2 link set lo up &&
        ip -n $here-1 link set card up && ip -n $here-2 link set card up &&
        ip netns exec $here-2 unshare --uts hostname $here-2
} >"$scratch/why" 2>&1 || no "$(tail -n 1 "$scratch/why")"

# A card is not up at once after it is switched on.
for node in 1 2; do
    for look in 1 2 3 4 5 6 7 8 9 10; do
        ip netns exec $here-$node cat /sys/class/net/card/operstate | grep -q up && break
        sleep 0.1
    done
done

# Stands for ssh: options, a host, and a command.
cat >"$scratch/agent" <<END
#!/bin/sh
while :; do
    case \$1 in
    $one) node=1; shift; break ;;
    $other) node=2; shift; break ;;
    esac
    shift
done
exec ip netns exec $here-\$node unshare --uts sh -c "hostname $here-\$node; \$*"
END
chmod +x "$scratch/agent"

if "$mpirun" --version 2>&1 | grep -qi 'open mpi\|open-mpi'; then
    set -- --mca plm_rsh_agent "$scratch/agent" --mca btl_tcp_if_include $one/24 --mca oob_tcp_if_include $one/24 \
        -H $one:2,$other:2 -n 4 "$@"
else # the lower layers would use the memory that both nodes share
    export UCX_TLS=tcp,self UCX_NET_DEVICES=card FI_PROVIDER=tcp
    set -- -launcher ssh -launcher-exec "$scratch/agent" -hosts $one:2,$other:2 -n 4 "$@"
fi
"$scratch/agent" $one "exec $mpirun $*"
status=$?
echo "sent from node 1 to node 2: $(ip netns exec $here-1 cat /sys/class/net/card/statistics/tx_bytes) bytes"
exit $status
