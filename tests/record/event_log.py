"""Prints the events of a Windows event log, one a line, as dissect.eventlog reads them: event_log.py FILE"""
import sys

from dissect.eventlog.evtx import Evtx

with open(sys.argv[1], "rb") as file:
    for event in Evtx(file):
        line = f"{event['EventRecordID']} {event['Provider_Name']} {event['EventID']}"
        data = [str(event[name]) for name in sorted(event) if name.startswith("param")]
        print(line, " | ".join(data)) if data else print(line)
