# Plays every agent of the town: its task comes as a prompt on standard input, its last words are the result.
prompt=$(cat)
sleep 1
case $prompt in
*"You are the reviewer"*) echo "APPROVED: I looked at it, and it is right." ;;
*"Sound the depths"*) echo "3 5 8 13 fathoms" > depths.txt; echo "Four soundings are in depths.txt." ;;
*"Count the buoys"*) echo "7 buoys" > buoys.txt; echo "The buoys are counted in buoys.txt." ;;
*) cat depths.txt buoys.txt > chart.txt; echo "The chart is in chart.txt." ;;
esac
