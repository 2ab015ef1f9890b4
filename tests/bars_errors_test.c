/* Damaged files: each is refused with the message that says where, what, and what to do. */
#include <criterion/criterion.h>

#include "bars_fixture.h"

struct damage {
    const char *option, *bytes;
    size_t n;
    const char *message; /* FILE stands for the path */
};

static const struct damage damages[] = {
    {"", "", 0, "FILE: the file is empty; expected rows of time, open, high, low, close"},
    {"", "\n\n  \n", 5, "FILE: the file is empty; expected rows of time, open, high, low, close"},
    {"", "time,open,high,low,close,volume\n", 32, "FILE: 0 rows of data; at least 2 are needed"},
    {"", "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n", 58,
     "FILE: 1 row of data; at least 2 are needed"},
    {"", "time,open,high,low\n1700000000,1,2,0.5\n", 38,
     "FILE:1:1: no table found: none of , ; | and tab splits the first 2 lines into 5 or more "
     "cells; expected time, open, high, low, close"},
    {"", "time,open,high,close,volume\n1700000000,1,2,1.5,10\n", 50,
     "FILE:1:1: no column is named as low; rename it, or name all columns in data.columns"},
    {"", "a,open,high,low,close\n1,1,2,0.5,1.5\n", 36,
     "FILE:1:1: no column is named as time; rename it, or name all columns in data.columns"},
    {"", "hello world\nthis is no table\n", 29,
     "FILE:1:1: no table found: none of , ; | and tab splits the first 2 lines into 5 or more "
     "cells; expected time, open, high, low, close"},
    {"", "1700000000,1,2,0.5,1.5,10,3,4\n", 30,
     "FILE:1:1: no header with open, high, low and close, and 8 columns from \"1700000000\": "
     "without header 6, 7 and 12 columns are known; name the columns in data.columns"},
    {"", "1700000000,1,2,0.5,1.5,10,x\n", 28,
     "FILE:1:1: no header with open, high, low and close, and 7 columns from \"1700000000\": 7 "
     "columns are Kraken OHLCVT (epoch seconds first) or MetaTrader 4 (date, time of day), and the "
     "first row fits neither; name the columns in data.columns"},
    {"", "a,b,c,d,e,f\n", 12,
     "FILE:1:1: no header with open, high, low and close, and 6 columns from \"a\": 6 columns are "
     "time, open, high, low, close, volume, and the first row does not fit; name the columns in "
     "data.columns"},
    {"", "1700000000,1,2,0.5,1.5,10,1,2,3,4,5,6\n", 38,
     "FILE:1:1: no header with open, high, low and close, and 12 columns from \"1700000000\": 12 "
     "columns are Binance klines, and the first row does not fit; name the columns in "
     "data.columns"},
    {"", "time,open,open,high,low,close\n1700000000,1,1,2,0.5,1.5\n", 55,
     "FILE:1:11: a second column \"open\" (the first is column 2 of the table); keep one"},
    {"", "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,,2,0.5,1.5,10\n",
     83, "FILE:3:12: open \"\" is empty; correct or remove the row"},
    {"", "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,  ,2,0.5,1.5,10\n",
     85, "FILE:3:14: open \"\" is empty; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,nan,2,0.5,1.5,10\n",
     86, "FILE:3:12: open \"nan\" stands for a missing number; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,NaN,2,0.5,1.5,10\n",
     86, "FILE:3:12: open \"NaN\" stands for a missing number; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,null,2,0.5,1.5,10\n",
     87, "FILE:3:12: open \"null\" stands for a missing number; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,None,2,0.5,1.5,10\n",
     87, "FILE:3:12: open \"None\" stands for a missing number; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,N/A,2,0.5,1.5,10\n",
     86, "FILE:3:12: open \"N/A\" stands for a missing number; correct or remove the row"},
    {"", "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,-,2,0.5,1.5,10\n",
     84, "FILE:3:12: open \"-\" stands for a missing number; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,#N/A,2,0.5,1.5,10\n",
     87, "FILE:3:12: open \"#N/A\" stands for a missing number; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,inf,2,0.5,1.5,10\n",
     86, "FILE:3:12: open \"inf\" is not finite; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,-inf,2,0.5,1.5,10\n",
     87, "FILE:3:12: open \"-inf\" is not finite; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,abc,2,0.5,1.5,10\n",
     86, "FILE:3:12: open \"abc\" is not a number; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1.2.3,2,0.5,1.5,10\n",
     88, "FILE:3:12: open \"1.2.3\" is not a number; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,0x10,2,0.5,1.5,10\n",
     87, "FILE:3:12: open \"0x10\" is not a number; correct or remove the row"},
    {"", "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1e,2,0.5,1.5,10\n",
     85, "FILE:3:12: open \"1e\" is not a number; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1 000,2,0.5,1.5,10\n",
     88, "FILE:3:12: open \"1 000\" is not a number; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,\"1,5\",2,0.5,1.5,"
     "10\n",
     88,
     "FILE:3:12: open \"1,5\" has thousands separators in the wrong places; correct or remove the "
     "row"},
    {"", "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,$5,2,0.5,1.5,10\n",
     85, "FILE:3:12: open \"$5\" is not a number; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1e999,2,0.5,1.5,10\n",
     88, "FILE:3:12: open \"1e999\" is beyond the largest number; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,--5,2,0.5,1.5,10\n",
     86, "FILE:3:12: open \"--5\" is not a number; correct or remove the row"},
    {"", "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1,2,0.5,,10\n", 81,
     "FILE:3:20: close \"\" is empty; correct or remove the row"},
    {"", "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,,,,,10\n", 76,
     "FILE:3:12: open \"\" is empty; all four prices are missing: remove the row, or set "
     "data.empty_rows: skip"},
    {"", "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,0,2,0.5,1.5,10\n",
     84, "FILE:3:12: open = 0 is not above 0; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1e31,2,0.5,1.5,10\n",
     87, "FILE:3:12: open = 1e+31 is above 1e30 (another column?); correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1,2,1e-31,1.5,10\n",
     86, "FILE:3:16: low = 1e-31 is below 1e-30 (another column?); correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1,2,0.5,1.5,1e31\n",
     86, "FILE:3:24: volume = 1e+31 is above 1e30 (another column?); correct or remove the row"},
    {"", "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1,2,-0.5,1.5,10\n",
     85, "FILE:3:16: low = -0.5 is not above 0; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1,0.9,0.5,0.8,10\n",
     86,
     "FILE:3:14: high = 0.9 is below the open 1; correct the row, or set data.ohlc_repair: widen"},
    {"", "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1,2,1.2,1.5,10\n",
     84,
     "FILE:3:16: low = 1.2 is above the open 1; correct the row, or set data.ohlc_repair: widen"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1,1.4,0.5,1.5,10\n",
     86,
     "FILE:3:14: high = 1.4 is below the close 1.5; correct the row, or set data.ohlc_repair: "
     "widen"},
    {"", "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1,2,0.5,1.5,-10\n",
     85, "FILE:3:24: volume = -10 is not 0 or more; correct or remove the row"},
    {"", "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1,2,0.5,1.5,nan\n",
     85, "FILE:3:24: volume \"nan\" stands for a missing number; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1,2,0.5,1.5,many\n",
     86, "FILE:3:24: volume \"many\" is not a number; correct or remove the row"},
    {"", "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1,2,0.5,1.5,\n",
     82, "FILE:3:24: volume \"\" is empty; correct or remove the row"},
    {"", "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,\n1700000060,1,2,0.5,1.5,10\n",
     82,
     "FILE:3:24: volume \"10\" appears here, but the rows before have none; give all rows a "
     "volume, or none"},
    {"", "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1,2,0.5\n", 77,
     "FILE:3:16: the row has 4 cells where the table has 6 columns; correct the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1,2,0.5,1.5,10,99\n",
     87,
     "FILE:3:27: the row has 7 cells where the table has 6 columns; correct the row (decimal "
     "commas need ; or tab between cells)"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,\"1,2,0.5,1.5,10\n",
     85,
     "FILE:3:12: the cell \"\"1,2,0.5,1.5,10\" has an opening quote but no closing one on its "
     "line; correct the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,\"1\"x,2,0.5,1.5,10\n",
     87, "FILE:3:12: the cell \"1\" has text after its closing quote; correct the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1,2,0.5,1.5,"
     "10\n1699999999,1,2,0.5,1.5,10\n",
     110,
     "FILE:4:1: the time 2023-11-14T22:13:19 UTC comes after 2023-11-14T22:14:20 in line 3; rows "
     "must be in order of time (all newest first is read too)"},
    {"", "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.25,10\n",
     85,
     "FILE:3:1: the time 2023-11-14T22:13:20 UTC occurs again with other values than at FILE:2; "
     "remove one, or set data.duplicates: keep_last"},
    {"data.gaps=error",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n1700000060,1,2,0.5,1.5,"
     "10\n1700000120,1,2,0.5,1.5,10\n1700000300,1,2,0.5,1.5,10\n",
     136,
     "FILE:5:1: a gap of 3 bars from 2023-11-14T22:15:20 to 2023-11-14T22:18:20 UTC; give the bars "
     "in between, or set data.gaps to segment, keep or ffill"},
    {"", "time,open,high,low,close,volume\nyesterday,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,10\n",
     83, "FILE:2:1: time \"yesterday\" is not a time; correct or remove the row"},
    {"", "time,open,high,low,close,volume\n,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,10\n", 74,
     "FILE:2:1: time \"\" is empty; correct or remove the row"},
    {"", "time,open,high,low,close,volume\n2024-13-01,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,10\n",
     84, "FILE:2:1: time \"2024-13-01\" is not a day of the calendar; correct or remove the row"},
    {"", "time,open,high,low,close,volume\n2024-02-30,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,10\n",
     84, "FILE:2:1: time \"2024-02-30\" is not a day of the calendar; correct or remove the row"},
    {"", "time,open,high,low,close,volume\n2023-02-29,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,10\n",
     84, "FILE:2:1: time \"2023-02-29\" is not a day of the calendar; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n2024-06-03 "
     "25:00,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,10\n",
     90, "FILE:2:1: time \"2024-06-03 25:00\" is not a time of day; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n2024-06-03 "
     "10:61,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,10\n",
     90, "FILE:2:1: time \"2024-06-03 10:61\" is not a time of day; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n2024-06-03T10:00:00+99:00,1,2,0.5,1.5,10\n1700000000,1,2,0."
     "5,1.5,10\n",
     99,
     "FILE:2:1: time \"2024-06-03T10:00:00+99:00\" has an offset from UTC beyond 18 hours; correct "
     "or remove the row"},
    {"",
     "time,open,high,low,close,volume\n2024-06-03 10:00 "
     "EST,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,10\n",
     94,
     "FILE:2:1: time \"2024-06-03 10:00 EST\" has text after the time that is not understood; "
     "correct or remove the row"},
    {"", "time,open,high,low,close,volume\n03.06.24,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,10\n",
     82, "FILE:2:1: time \"03.06.24\" has a year without four digits; correct or remove the row"},
    {"", "time,open,high,low,close,volume\n1850-01-01,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,10\n",
     84,
     "FILE:2:1: time \"1850-01-01\" is outside the years 1970 to 2100; correct or remove the row"},
    {"", "time,open,high,low,close,volume\n2200-01-01,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,10\n",
     84,
     "FILE:2:1: time \"2200-01-01\" is outside the years 1970 to 2100; correct or remove the row"},
    {"", "time,open,high,low,close,volume\n-5,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,10\n", 76,
     "FILE:2:1: time \"-5\" is before 1970; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n99999999999999999999,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,"
     "10\n",
     94,
     "FILE:2:1: time \"99999999999999999999\" is outside the years 1970 to 2100; correct or remove "
     "the row"},
    {"", "time,open,high,low,close,volume\n4200000000,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,10\n",
     84,
     "FILE:2:1: time \"4200000000\" is outside the years 1970 to 2100; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n202406031000,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,10\n",
     86,
     "FILE:2:1: time \"202406031000\" reads as YYYYMMDDHHMM and as milliseconds alike; write it as "
     "YYYYMMDDHHMMSS"},
    {"", "time,open,high,low,close,volume\nJun 3 2024,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,10\n",
     84, "FILE:2:1: time \"Jun 3 2024\" is not a time; correct or remove the row"},
    {"",
     "time,open,high,low,close,volume\n2024-06-03 "
     "10:00:00.,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,10\n",
     94,
     "FILE:2:1: time \"2024-06-03 10:00:00.\" has a fraction of a second without digits, or with "
     "more than 12; correct or remove the row"},
    {"", "time,open,high,low,close,volume\n32/01/2024,1,2,0.5,1.5,10\n1700000000,1,2,0.5,1.5,10\n",
     84, "FILE:2:1: time \"32/01/2024\" is not a day of the calendar; correct or remove the row"},
    {"", "date,open,high,low,close\n03/04/2024,1,2,0.5,1.5\n04/04/2024,1,2,0.5,1.5\n", 71,
     "FILE:2:1: the dates read day first and month first alike (2024-04-03 or 2024-03-04); set "
     "data.date_order: dmy or mdy"},
    {"", "date,open,high,low,close\n13/04/2024,1,2,0.5,1.5\n04/14/2024,1,2,0.5,1.5\n", 71,
     "FILE:3:1: time \"04/14/2024\" reads month first, where others read day first; set "
     "data.date_order"},
    {"data.date_order=mdy", "date,open,high,low,close\n13/04/2024,1,2,0.5,1.5\n", 48,
     "FILE:2:1: time \"13/04/2024\" reads day first, but data.date_order is mdy; correct or "
     "remove the row"},
    {"data.date_order=dmy", "date,open,high,low,close\n04/13/2024,1,2,0.5,1.5\n", 48,
     "FILE:2:1: time \"04/13/2024\" reads month first, but data.date_order is dmy; correct or "
     "remove the row"},
    {"data.date_order=ymd", "date,open,high,low,close\n13/04/2024,1,2,0.5,1.5\n", 48,
     "FILE:2:1: time \"13/04/2024\" has its year last, but data.date_order is ymd; correct or "
     "remove the row"},
    {"", "date,open,high,low,close\n03/04/2024 10:00Z,1,2,0.5,1.5\n", 55,
     "FILE:2:1: time \"03/04/2024 10:00Z\" reads day first and month first alike; set "
     "data.date_order: dmy or mdy"},
    {"", "date,time,open,high,low,close\n2024-06-03,noon,1,2,0.5,1.5\n", 58,
     "FILE:2:12: time of day \"noon\" has text after the time that is not understood; correct or "
     "remove the row"},
    {"", "date,time,open,high,low,close\n2024-06-03,,1,2,0.5,1.5\n", 54,
     "FILE:2:12: time of day \"\" is empty; correct or remove the row"},
    {"", "date;open;high;low;close\n2024-06-03;1,5;2,5;0,5;1,5\n2024-06-04;1.5;2,5;0,5;1,5\n", 79,
     "FILE:3:12: open \"1.5\" has a decimal point, but earlier numbers have decimal commas; "
     "correct or remove the row"},
    {"", "date;open;high;low;close\n2024-06-03;1.5;2.5;0.5;1.5\n2024-06-04;1,5;2.5;0.5;1.5\n", 79,
     "FILE:3:12: open \"1,5\" has a decimal comma, but earlier numbers have decimal points; "
     "correct or remove the row"},
    {"", "date,open,high,low,close\n2024-06-03,\"1,20,3.5\",2,0.5,1.5\n", 57,
     "FILE:2:12: open \"1,20,3.5\" has thousands separators in the wrong places; correct or remove "
     "the row"},
    {"", "date;open;high;low;close\n2024-06-03;1.20,5;2;0,5;1,5\n", 53,
     "FILE:2:12: open \"1.20,5\" has thousands separators in the wrong places; correct or remove "
     "the row"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\ntime,open,low,high,close,"
     "volume\n1700000060,1,2,0.5,1.5,10\n",
     116,
     "FILE:3:1: a header with other columns than the rows before; give the parts as separate "
     "files"},
    {"", "symbol,time,open,high,low,close\nA,1700000000,1,2,0.5,1.5\nB,1700000000,1,2,0.5,1.5\n",
     82, "FILE: the file has 2 symbols: A, B; set data.symbol to one"},
    {"data.symbol=C",
     "symbol,time,open,high,low,close\nA,1700000000,1,2,0.5,1.5\nB,1700000000,1,2,0.5,1.5\n", 82,
     "FILE: no row of data.symbol = \"C\"; the file has A, B"},
    {"",
     "Price,Close,Close,High,High,Low,Low,Open,Open\nTicker,A,B,A,B,A,B,A,B\nDate,,,,,,,,\n2024-06-"
     "03,1,1,1,1,1,1,1,1\n",
     109, "FILE:2:1: the file has the symbols A, B; set data.symbol to one of them"},
    {"data.symbol=Z", "Price,Close,High,Low,Open\nTicker,A,A,A,A\n2024-06-03,1,1,1,1\n", 60,
     "FILE:2:1: the file has the symbol A; set data.symbol to it"},
    {"data.columns=[time, open, high, low, close]", "1700000000,1,2,0.5,1.5,10\n", 26,
     "FILE:1:1: the row has 6 cells, but data.columns names 5 columns"},
    {"data.columns=[time, open, high, low, x, y]", "1700000000,1,2,0.5,1.5,10\n", 26,
     "data.columns:1: no column is named as close; rename it, or name all columns in data.columns"},
    {"data.timezone=America/New_York",
     "time,open,high,low,close\n2024-11-03 01:30:00,1,2,0.5,1.5\n2024-11-03 "
     "01:45:00,1,2,0.5,1.5\n2024-11-03 01:30:00,1,2,0.5,1.5\n",
     121,
     "FILE:4:1: the local time 2024-11-03T01:30:00 stands for two moments in America/New_York, "
     "where clocks were set back, and line 2 has it too; give stamps in UTC or with an offset"},
    {"data.timezone=America/New_York",
     "time,open,high,low,close\n2024-03-10 01:30:00,1,2,0.5,1.5\n2024-03-10 02:30:00,1,2,0.5,1.5\n",
     89,
     "FILE:3:1: the local time 2024-03-10T02:30:00 does not exist in America/New_York, where "
     "clocks were set forward; set data.timezone to the zone of the stamps"},
    {"data.timezone=Mars/Olympus", "time,open,high,low,close\n2024-03-10 01:30:00,1,2,0.5,1.5\n",
     57,
     "data.timezone = \"Mars/Olympus\" is not a zone in /usr/share/zoneinfo; use a name such as "
     "America/New_York, UTC, or a fixed offset such as +02:00"},
    {"", "\377\376t\000i\000", 6, "FILE: the file is UTF-16 text; save the file as UTF-8"},
    {"", "\376\377\000t\000i", 6, "FILE: the file is UTF-16 text; save the file as UTF-8"},
    {"", "PAR1abc", 7,
     "FILE: the file is Parquet; export it to CSV, for example with pandas: "
     "read_parquet(...).to_csv(...)"},
    {"", "PK\003\004abc", 7,
     "FILE: the file is a zip archive or a spreadsheet; unpack it, or save the sheet as CSV"},
    {"", "{\"a\": 1}", 8,
     "FILE: the file is a JSON object; give rows [[time, open, high, low, close, volume], ...] or "
     "CSV"},
    {"", "ARROW1\000\000", 8,
     "FILE: the file is Feather; export it to CSV, for example with pandas: "
     "read_feather(...).to_csv(...)"},
    {"", "(\265/\375abc", 7, "FILE: the file is zstd-compressed; unpack it first (zstd -d)"},
    {"", "BZh9abc", 7, "FILE: the file is bzip2-compressed; unpack it first (bunzip2)"},
    {"", "\3757zXZ\000", 6, "FILE: the file is xz-compressed; unpack it first (unxz)"},
    {"",
     "time,open,high,low,close,volume\n1700000000,1,2,0.5,1.5,10\n17000\00000060,1,2,0.5,1.5,10\n",
     85, "FILE:3:6: a zero byte; the file is binary or damaged, export it as CSV"},
    {"", "\037\213not really gzip at all", 24,
     "FILE: the gzip data is damaged near stored byte 4; copy it again"},
    {"", "[[1700000000,1,2,0.5,1.5,10],[1700000060,1,2,0.5,NaN,10]]", 57,
     "FILE: row 2, character 20: close \"NaN\" stands for a missing number; correct or remove the "
     "row"},
    {"", "[[1700000000,1,2,0.5,1.5,10],[1700000060,1,2,0.5,1.5,10", 55,
     "FILE: JSON row 2 is not closed by ]"},
    {"", "[[1700000000,1,2,0.5,1.5,10],x,[1700000060,1,2,0.5,1.5,10]]", 59,
     "FILE: text between JSON rows 1 and 2; expected [[time, open, high, low, close, volume], "
     "...]"},
    {"", "[]", 2, "FILE: the file is empty; expected rows of time, open, high, low, close"},
    {"",
     "ts_event,rtype,open,high,low,close,volume\n1717421400000000000,33,5301250000000,"
     "5303000000000,5300500000000,0,1840\n",
     114, "FILE:2:66: close = 0 is not above 0; correct or remove the row"},
    {"", "time,open,high,low,close,volume\n45296.5,1,2,0.5,1.5,10\n45297.5,1,2,0.5,1.5,10\n", 78,
     "FILE:2:1: time \"45296.5\" looks like a spreadsheet's day number; format the column as dates "
     "before saving as CSV"},
    {"", "a;b;c;d;e;f;g\n", 14,
     "FILE:1:1: no header with open, high, low and close, and 7 columns from \"a\": 7 columns are "
     "Kraken OHLCVT (epoch seconds first) or MetaTrader 4 (date, time of day), and the first row "
     "fits neither; name the columns in data.columns"},
    {"", "1700000000,1,2,0.5,1.5,10,100,2,3,4,5,6\n", 40,
     "FILE:1:1: no header with open, high, low and close, and 12 columns from \"1700000000\": 12 "
     "columns are Binance klines, and the first row does not fit; name the columns in "
     "data.columns"},
    {"data.gaps=error",
     "[[1700000000,1,2,0.5,1.5,10],[1700000060,1,2,0.5,1.5,10],[1700000120,1,2,0.5,1.5,10],["
     "1700000300,1,2,0.5,1.5,10]]",
     113,
     "FILE: row 4: a gap of 3 bars from 2023-11-14T22:15:20 to 2023-11-14T22:18:20 UTC; give the "
     "bars in between, or set data.gaps to segment, keep or ffill"},
};

/* Puts FILE for each place of `path` in `text`. */
static void hide_path(char *text, const char *path) {
    for (char *at = strstr(text, path); at != NULL; at = strstr(at + 4, path)) {
        memcpy(at, "FILE", 4);
        memmove(at + 4, at + strlen(path), strlen(at + strlen(path)) + 1);
    }
}

Test(bars_errors, every_damage_has_its_message) {
    cr_assert_geq(DQN_COUNT_OF(damages), 60u);
    for (size_t i = 0; i < DQN_COUNT_OF(damages); i++) {
        const struct damage *const d = &damages[i];
        char path[64], text[4096];
        struct dqn_bars bars;
        write_temporary(path, ".csv", d->bytes, d->n);
        const enum dqn_status status = load_bars(&bars, path, d->option, "", "");
        unlink(path);
        snprintf(text, sizeof(text), "%s", dqn_error_text());
        hide_path(text, path);
        cr_expect_eq(status, DQN_ERR_DATA, "case %zu: %s", i, dqn_status_name(status));
        cr_expect_str_eq(text, d->message, "case %zu: %s", i, text);
        cr_assert_null(bars.time_ns);
    }
}

Test(bars_errors, long_line) {
    enum { LENGTH = 10000000 };
    char path[64], text[4096];
    struct dqn_bars bars;
    char *const bytes = malloc(LENGTH);
    cr_assert_not_null(bytes);
    memset(bytes, '1', LENGTH);
    memcpy(bytes, "time,open,high,low,close\n1700000000,1,1,1,1\n", 44);
    write_temporary(path, ".csv", bytes, LENGTH);
    cr_assert_eq(load_bars(&bars, path, "", "", ""), DQN_ERR_DATA);
    unlink(path);
    snprintf(text, sizeof(text), "%s", dqn_error_text());
    hide_path(text, path);
    cr_assert_str_eq(text,
                     "FILE:3:1: the line is longer than 1048576 bytes; is this a text file of "
                     "market data?");
    free(bytes);
}

Test(bars_errors, cut_gzip) {
    char path[64], bytes[4096];
    struct dqn_bars bars;
    FILE *const file = fopen("tests/data/market/kraken.csv.gz", "rb");
    cr_assert_not_null(file);
    const size_t n = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    cr_assert(n > 100 && n < sizeof(bytes));
    write_temporary(path, ".gz", bytes, n - 20);
    cr_assert_eq(load_bars(&bars, path, "", "", ""), DQN_ERR_DATA);
    unlink(path);
    cr_assert_not_null(strstr(dqn_error_text(), "the gzip data is cut short near stored byte"));
}

/* The path may come from a command line as well as from the configuration, so the remedy names no
 * key that would hold it. */
Test(bars_errors, names_of_files) {
    static const char *const cases[][2] = {
        {"/tmp/dqn-none.csv", "/tmp/dqn-none.csv: cannot be opened: No such file or directory; "
                              "check its name and who may read it"},
        {"/tmp", "/tmp: is a folder; name files, or a pattern such as /tmp/*.csv"},
        {"/tmp/*.dqn-none", "/tmp/*.dqn-none: no file fits this pattern; check its folder and its "
                            "name"},
    };
    struct dqn_bars bars;
    for (size_t i = 0; i < DQN_COUNT_OF(cases); i++) {
        cr_expect_eq(load_bars(&bars, cases[i][0], "", "", ""), DQN_ERR_DATA);
        cr_expect_str_eq(dqn_error_text(), cases[i][1]);
    }
}
